// A response that the application has ended, and that leaves when its session is saved.
//
// Until then it is for the application as Node itself leaves a response that was sent: later
// headers, writes and ends are errors, and change nothing of what is sent. So the second answer of
// a handler never gets mixed with the first. The state of Node stays as it is, because a middleware
// before this one, for example one that compresses, may still write what the application has
// written.
'use strict'

const { ServerResponse } = require('node:http')

const CHANGES = ['setHeader', 'setHeaders', 'appendHeader', 'removeHeader', 'writeHead']
  .filter((name) => name in ServerResponse.prototype)

const ENDED = Symbol('ended')
const FROZEN = Symbol('frozen')

// Of each connection, how many of its responses wait, and whether it is to be destroyed after them.
const connections = new WeakMap()

/** Calls a method of Node on a response as if it were sent: it throws or reports an error. */
function callAsSent (res, name, args) {
  const { finished, _header } = res
  Object.assign(res, { finished: true, _header: _header || 'sent' })
  try {
    return ServerResponse.prototype[name].apply(res, args)
  } finally {
    Object.assign(res, { finished, _header })
  }
}

/** `write` and `end` after the end, which Node reports by an event. If nobody listens to it, that
 * would end the process, for as long as the response waits; so they are ignored then. HTTP/2 has
 * frames, which do not get mixed, and ignores them. */
function callAfterEnd (res, name, args) {
  if (res instanceof ServerResponse && res.listenerCount('error') > 0) {
    return callAsSent(res, name, args)
  }
  const callback = args.at(-1)
  if (typeof callback === 'function') process.nextTick(callback, new Error('write after end'))
  return name === 'end' ? res : false
}

// Shared by all responses: a getter of its own makes V8 lay out each response anew, in 6 us.
const GETTERS = {
  writableEnded: { configurable: true, get () { return this[ENDED] || this.finished } },
  headersSent: { configurable: true, get () { return this[FROZEN] || Boolean(this._header) } }
}

/** Freezes a response until the function that it returns is called. */
function freeze (req, res) {
  if (!(res instanceof ServerResponse)) return () => {}
  const release = deferDestroy(req.socket, res)
  const thawHead = res.headersSent ? () => {} : freezeHead(res)
  res[ENDED] = true
  Object.defineProperty(res, 'writableEnded', GETTERS.writableEnded)
  return () => {
    res[ENDED] = false
    thawHead()
    release()
  }
}

/** The functions stay in the response: to delete them would cost more than the rest. */
function freezeHead (res) {
  const { statusCode, statusMessage } = res
  const thaw = () => {
    if (res[FROZEN]) Object.assign(res, { statusCode, statusMessage })
    res[FROZEN] = false
  }
  const whileFrozen = (name, instead) => {
    const before = res[name]
    res[name] = (...args) => res[FROZEN] ? instead(args) : before.apply(res, args)
  }
  res[FROZEN] = true
  Object.defineProperty(res, 'headersSent', GETTERS.headersSent)
  for (const name of CHANGES) whileFrozen(name, (args) => callAsSent(res, name, args))
  whileFrozen('flushHeaders', () => {})
  // Node sends the head, because a middleware before this one writes.
  whileFrozen('_implicitHeader', () => {
    thaw()
    res._implicitHeader()
  })
  return thaw
}

/** An error after the response makes Express destroy the connection, from which the response has
 * not left yet. */
function deferDestroy (socket, res) {
  const connection = connectionOf(socket)
  connection.waiting++
  return () => {
    connection.waiting--
    if (connection.unwanted) res.once('finish', () => socket.destroySoon())
  }
}

function connectionOf (socket) {
  if (connections.has(socket)) return connections.get(socket)
  const connection = { waiting: 0, unwanted: false }
  const { destroy } = socket
  socket.destroy = (error) => {
    // Over a connection that has failed, or whose client has left, nothing can be sent.
    const isUsable = socket.writable && !error
    if (connection.waiting === 0 || !isUsable) return destroy.call(socket, error)
    connection.unwanted = true
    return socket
  }
  connections.set(socket, connection)
  return connection
}

module.exports = { callAfterEnd, freeze }
