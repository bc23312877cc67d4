// The addon, and the answers of its calls.
//
// A call gets a ticket as its first argument: 0 runs it at once, any other in a thread, a negative
// one in a thread for waits, where alone it waits for locks. The answer of a thread comes to
// `settle` with its ticket.
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

/** The object of a stored text. The parser's own error would quote it. */
function json (text) {
  try {
    const value = JSON.parse(text)
    if (typeof value === 'object' && value !== null) return value
  } catch {}
  throw new CorruptError('the session is no JSON object: another program has written it')
}

/** A session as `peek` tells it: its JSON, and when it ends in milliseconds since 1970. */
function parsed (peeked) {
  return [json(peeked.slice(0, -15)), Number(peeked.slice(-15))]
}

/** Runs `call(ticket)` at once and returns its answer. */
function now (call) {
  return checked(call(0))
}

function later (sign, call, queuedMs = 0) {
  return new Promise((resolve, reject) => {
    last = last === 0x7fffffff ? 1 : last + 1
    const ticket = sign * last
    channel.hasQueued(queuedMs)
    call(ticket)
    // The process lives while an answer is under way.
    if (pending.size === 0) awake = setInterval(() => {}, 0x7fffffff)
    pending.set(ticket, { resolve, reject })
  })
}

/** Opens the store of a URL. */
function openStore (url, { payloadBytesMax, hashedIds = false } = {}) {
  const store = checked(native.openStore(channel, url, payloadBytesMax, hashedIds))
  // It never changes, and a property is faster than a call.
  store.answersAtOnce = store.inMemory()
  // Of each id whose lock is waited for, the last one in its line.
  store.lines = new Map()
  return store
}

/** Runs what waits for no lock: at once in memory, otherwise in a thread. */
function ask (store, call) {
  return store.answersAtOnce ? now(call) : later(1, call)
}

/** Runs what may take long, but waits for no lock. */
function takeTime (call) {
  return later(1, call)
}

/** Runs what may wait for the lock of an id. The waits of an id stand in line, so that they need
 * one thread: those of one visitor hold up no other. */
function wait (store, id, call) {
  const { lines } = store
  const begun = performance.now()
  const turn = () => later(-1, call, performance.now() - begun)
  const before = lines.get(id)
  const answer = before === undefined ? turn() : before.then(turn)
  const last = answer.then(() => {}, () => {}).then(() => {
    if (lines.get(id) === last) lines.delete(id)
  })
  lines.set(id, last)
  return answer
}

/** `ask`, and `wait` if the lock of the id is not free. */
async function askOrWait (store, id, call) {
  try {
    return await ask(store, call)
  } catch (error) {
    if (error.code !== 'lock-timeout') throw error
  }
  return wait(store, id, call)
}

module.exports = { json, native, checked, parsed, openStore, now, ask, takeTime, wait, askOrWait }
