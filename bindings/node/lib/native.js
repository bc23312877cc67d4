// The addon, and the answers of its calls.
//
// A call gets a ticket as its first argument: 0 runs it at once, any other in a thread, a negative
// one in a thread for waits. The answer of a thread comes to `settle` with its ticket.
'use strict'

const native = require('../sessile.node')
const { CorruptError, raised } = require('./errors')

const pending = new Map()
let last = 0
let awake

const channel = new native.Channel(settle)
native.logTo((line) => process.emitWarning(line, 'SessileWarning'))

function settle (ticket, answer) {
  const { resolve, reject } = pending.get(ticket)
  pending.delete(ticket)
  if (pending.size === 0) clearInterval(awake)
  if (isFailure(answer)) reject(raised(answer))
  else resolve(answer)
}

function isFailure (answer) {
  return typeof answer === 'object' && answer !== null && answer.code !== undefined
}

/** The answer of a call of the addon; throws a failure. */
function checked (answer) {
  if (isFailure(answer)) throw raised(answer)
  return answer
}

/** The value of a stored text. The parser's own error would quote it. */
function json (text) {
  try {
    return JSON.parse(text)
  } catch {
    throw new CorruptError('the session is no JSON: another program has written it')
  }
}

/** A session as `peek` tells it: its JSON, and when it ends in milliseconds since 1970. */
function parsed (peeked) {
  return [json(peeked.slice(0, -15)), Number(peeked.slice(-15))]
}

/** Runs `call(ticket)` at once and returns its answer. */
function now (call) {
  return checked(call(0))
}

function later (sign, call) {
  return new Promise((resolve, reject) => {
    // The process lives while an answer is under way.
    if (pending.size === 0) awake = setInterval(() => {}, 0x7fffffff)
    last = last === 0x7fffffff ? 1 : last + 1
    pending.set(sign * last, { resolve, reject })
    call(sign * last)
  })
}

module.exports = {
  json,
  native,
  checked,
  parsed,

  now,
  /** Opens the store of a URL. */
  openStore (url, { payloadBytesMax, hashedIds = false } = {}) {
    const store = checked(native.openStore(channel, url, payloadBytesMax, hashedIds))
    // It never changes, and a property is faster than a call.
    store.answersAtOnce = store.inMemory()
    return store
  },
  /** Runs what waits for no lock: at once in memory, otherwise in a thread. */
  ask (store, call) {
    return store.answersAtOnce ? now(call) : later(1, call)
  },
  /** Runs what may wait for a lock. */
  wait (call) {
    return later(-1, call)
  }
}
