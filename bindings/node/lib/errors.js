// The errors: one class for each kind of failure, with the code that logs and other languages use.
// A message says which operation failed on which store, why, and what to do; it never has an id.
'use strict'

class SessileError extends Error {}

const CODES = [
  'invalid-id', 'invalid-url', 'invalid-argument', 'unsupported', 'exists', 'gone', 'destroyed',
  'stale', 'lock-timeout', 'too-large', 'unreachable', 'denied', 'full', 'out-of-memory', 'evicted',
  'corrupt', 'incompatible', 'io', 'panic'
]

/** `lock-timeout` is `LockTimeoutError`. */
const classNameOf = (code) =>
  code.replace(/(^|-)(.)/g, (_, dash, letter) => letter.toUpperCase()) + 'Error'

const byCode = {}
for (const code of CODES) {
  const name = classNameOf(code)
  byCode[code] = { [name]: class extends SessileError {} }[name]
  Object.defineProperty(byCode[code].prototype, 'code', { value: code })
  Object.defineProperty(byCode[code].prototype, 'name', { value: name })
}
Object.defineProperty(SessileError.prototype, 'name', { value: 'SessileError' })

/** The error of a failed call of the addon. */
function raised (failure) {
  const { code, message, ...details } = failure
  return Object.assign(new (byCode[code] || SessileError)(message), details)
}

const classes = Object.fromEntries(Object.values(byCode).map((kind) => [kind.name, kind]))

module.exports = { SessileError, byCode, raised, ...classes }
