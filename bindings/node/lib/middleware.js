// The middleware `sessile()`: a request holds its session until its response ends.
//
// Node cannot wait in `req.session`. So the session is opened before the next handler runs or, with
// `lazy`, by `await req.openSession()`. It is saved when the response ends, and the response
// leaves after that: if the save fails, the response is an error.
'use strict'

const { Cookie } = require('./cookies')
const { DestroyedError } = require('./errors')
const { callAfterEnd, freeze } = require('./frozen')
const { Held, Sessions, LOST } = require('./sessions')

const BODY_HEADERS = ['Content-Length', 'Content-Encoding', 'Content-Range']

// Of each session object, its request.
const visits = new WeakMap()

/** The session of a request: its own properties are its data. */
class Session {
  get id () {
    return visits.get(this).held.id
  }

  /** Stores it now and gives its lock back. */
  save (callback) {
    return told(visits.get(this).held.commit(), callback)
  }

  /** Gives it a new id; it is empty then, unless `{ keep: true }`. */
  regenerate (options, callback) {
    if (typeof options === 'function') [options, callback] = [{}, options]
    return told(visits.get(this).held.regenerate(options), callback)
  }

  /** Says whose session it is, for example the number of the user; null takes that away. */
  setOwner (owner) {
    visits.get(this).held.setOwner(owner)
    return this
  }

  /** Ends it: a log-out. */
  destroy (callback) {
    return told(visits.get(this).destroy(), callback)
  }

  /** Sends the cookie again. With `idleMs` the session lives for so long after this request and
   * each later one, and so does the cookie. */
  touch (idleMs) {
    visits.get(this).touch(idleMs)
    return this
  }
}
/** A promise, or a callback as express-session has it. */
function told (promise, callback) {
  if (callback === undefined) return promise
  promise.then(() => callback(), callback)
}

/** One request and its session. */
class Visit {
  constructor (sessions, cookie, rolling, req, res, next) {
    Object.assign(this, { cookie, rolling, req, res, next })
    this.sent = cookie.read(req.headers.cookie)
    this.opened = undefined
    this.failed = false
    this.finished = false
    this.frozen = false
    this.renewed = rolling
    this.destroyed = false
    this.held = new Held(sessions, this.sent, (data) => {
      const session = Object.setPrototypeOf(data, Session.prototype)
      visits.set(session, this)
      return session
    })
  }

  open () {
    this.opened ??= this.held.open().then(() => this.held.data, (error) => {
      // An error page needs no session, and is sent without it.
      this.failed = true
      if (error.code === 'lock-timeout' || error.code === 'unreachable') error.status = 503
      throw error
    })
    return this.opened
  }

  get session () {
    if (this.failed) return undefined
    if (this.opened === undefined && this.sent !== undefined) {
      throw new Error('the session is not open: await req.openSession() first')
    }
    return this.held.data
  }

  async destroy () {
    await this.held.destroy()
    this.destroyed = true
  }

  touch (idleMs) {
    if (idleMs !== undefined) this.held.idleMs = idleMs
    this.renewed = true
  }

  /** Follows the response to its end, also if the client leaves before. */
  follow () {
    const { res } = this
    const { end, write, writeHead } = res
    let begun = false
    res.writeHead = (...args) => {
      if (!begun && !res.headersSent) {
        this.addCookie(args)
        begun = true
      }
      return writeHead.apply(res, args)
    }
    res.write = (...args) =>
      this.frozen ? callAfterEnd(res, 'write', args) : write.apply(res, args)
    res.end = (...args) => {
      if (this.frozen) return callAfterEnd(res, 'end', args)
      if (!this.isUsed) return end.apply(res, args)
      this.answer(() => end.apply(res, args))
      return res
    }
    // The handler may still run: its end saves what it has changed.
    const leave = () => { this.held.leave().catch(() => {}) }
    if (res.destroyed) leave()
    else res.once('close', leave)
  }

  /** Sends the response when the session is saved, and an error in its place if it cannot be. */
  async answer (send) {
    const { req, res } = this
    const saving = this.finish().catch((error) => error)
    const thaw = freeze(req, res)
    this.frozen = true
    const failure = await saving
    this.frozen = false
    thaw()
    try {
      if (failure) throw failure
      send()
    } catch (error) {
      if (res.headersSent) return res.destroy(error)
      // They describe the body that is not sent.
      BODY_HEADERS.forEach((name) => res.removeHeader(name))
      this.next(error)
    }
  }

  get isUsed () {
    return !this.failed && !this.finished && (this.opened !== undefined || this.held.isUsed)
  }

  /** Saves the session and gives its lock back. */
  async finish () {
    const { held, res } = this
    try {
      if (held.isNew && held.isUsed && res.headersSent && !held.announced) {
        throw new DestroyedError('the response has begun without the cookie of the new session, ' +
          'which is not saved: change the session before the first write')
      }
      this.saved = await held.save()
      // After a log-out there is nothing that the visitor could miss.
      if (this.saved === 'replaced' || this.saved === 'ended') {
        throw Object.assign(new DestroyedError(LOST[this.saved]), { status: 409 })
      }
    } finally {
      this.finished = true
      await held.release()
    }
  }

  addCookie (args) {
    const { cookie, held, req, res } = this
    let line
    const https = req.secure ?? req.socket.encrypted ?? false
    if (this.finished ? !held.isNew : held.isUsed) {
      const maxAge = held.idleMs ?? cookie.maxAge
      const lives = maxAge !== undefined && this.saved === 'stored'
      if (held.id !== this.sent || this.renewed || lives) {
        line = cookie.write(held.id, https, maxAge)
      }
      held.announced = true
    } else if (this.destroyed && this.sent !== undefined) {
      line = cookie.write(undefined, https)
    }
    if (line === undefined) return
    // Headers in the arguments of `writeHead` replace those that were set before.
    const given = args.at(-1)
    const name = typeof given === 'object' && given !== null && !Array.isArray(given) &&
      Object.keys(given).find((name) => name.toLowerCase() === 'set-cookie')
    const others = name ? given[name] : res.getHeader('Set-Cookie')
    const lines = [].concat(others ?? [], line)
    if (name) args[args.length - 1] = { ...given, [name]: lines }
    else res.setHeader('Set-Cookie', lines)
  }
}

/** Makes the middleware. `options` are described in types/index.d.ts. */
function sessile (options) {
  const { url, name, cookie: cookieOptions, rolling = false, lazy = false, ...rules } = options
  const cookie = new Cookie({ name, ...cookieOptions })
  rules.idleMs ??= cookie.maxAge ?? undefined
  const sessions = url instanceof Sessions ? url : new Sessions(url, rules)

  function middleware (req, res, next) {
    if (req.openSession !== undefined) return next()
    const visit = new Visit(sessions, cookie, rolling, req, res, next)
    Object.defineProperty(req, 'session', {
      configurable: true, enumerable: true, get: () => visit.session
    })
    Object.defineProperty(req, 'sessionID', { configurable: true, get: () => visit.held.id })
    req.openSession = () => visit.open()
    // For frameworks that can still change the response when they send it.
    req.finishSession = async () => { if (visit.isUsed) await visit.finish() }
    visit.follow()
    if (lazy || visit.sent === undefined) return next()
    // A client that has left while its session was not free gets no handler.
    visit.open().then(() => next(), (error) => { if (error.code !== 'ABORT_ERR') next(error) })
  }
  middleware.sessions = sessions
  return middleware
}

module.exports = { sessile, Session }
