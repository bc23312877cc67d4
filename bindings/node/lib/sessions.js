// The sessions of one application, and the session of one request.
//
// What a session does with its store is decided by `Request` of the addon. Here are the data, the
// id, and the order of calls: one at a time for each request, because one waits for another.
'use strict'

const { randomBytes } = require('node:crypto')
const { native, openStore, checked, json, parsed, ask, takeTime, wait, askOrWait } =
  require('./native')
const { DestroyedError } = require('./errors')

const DAY_MS = 86_400_000
// Where the stored JSON has a time of `touch`, which requests to come keep.
const IDLE = 'sessile:idleMs'
const LOST = {
  'logged-out': 'another request has destroyed the session; nothing is saved',
  replaced: 'another request has given the session a new id; nothing is saved',
  ended: 'the session has reached the end of its absolute lifetime; nothing is saved'
}
// What a second save is told of a session that another request has ended.
const NOT_REOPENED = { destroyed: 'logged-out', unsupported: 'replaced' }

// As in the core, which refuses longer lives.
const IDLE_MS_MAX = 10 * 365 * DAY_MS

/** The time of `touch`, which is no value of the application. Another program may have written
 * anything there. */
function takenIdle (data) {
  if (!Object.hasOwn(data, IDLE)) return undefined
  const idleMs = data[IDLE]
  delete data[IDLE]
  return isIdle(idleMs) ? idleMs : undefined
}

function isIdle (idleMs) {
  return typeof idleMs === 'number' && idleMs >= 1 && idleMs <= IDLE_MS_MAX
}

function abortError () {
  const error = new Error('the client has left before its session was free')
  return Object.assign(error, { name: 'AbortError', code: 'ABORT_ERR' })
}

/** A new session id, of 192 random bits. */
function newId () {
  return randomBytes(24).toString('base64url')
}

/** A store with the rules of one application. */
class Sessions {
  /** `options` are described in types/index.d.ts. */
  constructor (url, options = {}) {
    const { idleMs = DAY_MS, mode = 'exclusive', onConflict = 'last', ...more } = options
    this.idleMs = idleMs
    this.takesTurns = mode === 'exclusive'
    this.store = openStore(url, more)
    const { firstLifetimeMs, lifetimeMs, lockWaitMs, graceMs } = more
    this.rules = checked(native.makeRules(
      { idleMs, firstLifetimeMs, lifetimeMs, lockWaitMs, graceMs, concurrency: mode, onConflict }))
  }

  /** The URL without secrets. */
  get label () {
    return this.store.label()
  }

  /** The session of an id, with its lock; a new one without an id or for an unknown one. */
  async begin (id) {
    const held = new Held(this, id)
    await held.open()
    return held
  }

  /** The data of a session, without a lock; null if there is none. */
  async peek (id) {
    const peeked = await ask(this.store, (ticket) => this.store.peek(ticket, id, false))
    if (peeked === null) return null
    const [data] = parsed(peeked)
    takenIdle(data)
    return data
  }

  /** Lets a session live for `idleMs` from now. */
  async touch (id, idleMs = this.idleMs) {
    await ask(this.store, (ticket) => this.store.touch(ticket, id, idleMs))
  }

  /** Ends the session of an id, even while a request has it. */
  async destroy (id) {
    await ask(this.store, (ticket) => this.store.destroy(ticket, id, false))
  }

  /** Ends all sessions of an owner, but for the one with the id `but`: a log-out everywhere.
   * Returns how many. */
  async revoke (owner, { but } = {}) {
    return takeTime((ticket) => this.store.revoke(ticket, owner, but))
  }

  /** Removes expired sessions and returns their number. */
  async collect () {
    return takeTime((ticket) => this.store.collect(ticket, true))
  }

  /** What this process has counted: failed saves, conflicts, waits that were too long. */
  counters () {
    const camel = (name) => name.replace(/_(.)/g, (_, letter) => letter.toUpperCase())
    const counters = Object.entries(this.store.counters())
    return Object.fromEntries(counters.map(([name, count]) => [camel(name), count]))
  }
}

/** The session of one request. */
class Held {
  #sessions
  #request
  #id
  #shape
  // As it is stored; null if it is not.
  #text = null
  #idleMs
  // Whose session the next save makes it; an empty one takes that away.
  #owner
  #last = Promise.resolve()
  #left = false

  /** `shape` makes the data of the application from a plain object. */
  constructor (sessions, id, shape = (data) => data) {
    this.#sessions = sessions
    this.#request = new native.Request(sessions.store, sessions.rules)
    this.#id = id
    this.#shape = shape
    this.data = shape({})
    /** Whether the browser has been told its id, so that it is stored even if it is empty. */
    this.announced = false
  }

  /** The secret of the cookie. */
  get id () {
    this.#id ??= newId()
    return this.#id
  }

  /** How long it lives after each request, if that is not what the rules say. */
  get idleMs () {
    return this.#idleMs
  }

  set idleMs (idleMs) {
    if (idleMs !== undefined && !isIdle(idleMs)) {
      throw new RangeError('idleMs is a number of milliseconds, of at least 1 and at most ten years')
    }
    this.#idleMs = idleMs
  }

  /** Says whose session it is, for example the number of the user after a log-in; null takes that
   * away. It counts with the next save, and later saves keep it. */
  setOwner (owner) {
    if (owner !== null && (typeof owner !== 'string' || owner === '')) {
      throw new TypeError('an owner is a string of 1 to 255 bytes, or null')
    }
    this.#owner = owner ?? ''
  }

  /** Whether no request has stored it. */
  get isNew () {
    return this.#text === null
  }

  /** Whether there is something to store or to touch. */
  get isUsed () {
    return this.#text !== null || Boolean(this.#owner) || Object.keys(this.data).length > 0
  }

  /** Reads it, and takes its lock unless requests are merged. */
  open () {
    return this.#alone(async () => {
      const id = this.#id
      if (id === undefined) return
      const stay = () => { if (this.#left) throw abortError() }
      let waits
      const open = (ticket) => {
        waits = ticket < 0
        if (waits) stay()
        return this.#request.open(ticket, id, waits ? 'locked' : 'at-once', true)
      }
      // Those in line come first, unless it takes no lock.
      const { store, takesTurns } = this.#sessions
      const isAwaited = takesTurns && store.lines.has(id)
      const text = await (isAwaited ? this.#wait(open) : this.#askOrWait(open))
      try {
        if (waits) stay()
        this.#load(json(text || '{}'))
      } catch (error) {
        await this.#close()
        throw error
      }
      // An id that the store does not know is not taken from a cookie.
      if (text === null) this.#id = undefined
      else this.#text = text
    })
  }

  /** Stores it and gives its lock back; another save takes it again. Names the result: `stored`,
   * `touched` if only its life is longer now, `nothing`; if another request has ended it meanwhile,
   * so that its changes are lost, `logged-out`, `replaced` (by a new id) or `ended`. */
  save () {
    return this.#alone(async () => {
      if (!this.isUsed && !this.announced) return 'nothing'
      const [id, request] = [this.id, this.#request]
      const text = this.#dumped()
      const changed = text !== this.#text
      if (this.#text !== null && !request.isOpen()) {
        if (!changed && this.#owner === undefined) return 'nothing'
        try {
          await this.#reopen()
        } catch (error) {
          const lost = NOT_REOPENED[error.code]
          if (lost === undefined) throw error
          return lost
        }
      }
      const empty = text === '{}' && !this.announced
      const owner = this.#owner
      const save = (ticket) =>
        request.save(ticket, id, text, changed, empty, true, this.idleMs, owner)
      const changes = changed || owner !== undefined
      const waits = changes && request.isOpen() && !request.holdsLock()
      const saved = await (waits ? this.#wait(save) : this.#askOrWait(save))
      if (saved === 'stored') this.#text = text
      if (saved === 'stored' || saved === 'touched') this.#owner = undefined
      // A save gives the lock back, also one of an unchanged session.
      if (saved === 'touched') await this.#close()
      return saved === 'ended' && !changed ? 'nothing' : saved
    })
  }

  /** `save`, and an error if another request has ended the session. */
  async commit () {
    const saved = await this.save()
    if (LOST[saved]) throw new DestroyedError(LOST[saved])
    return saved
  }

  /** Gives it a new id: at each log-in and change of rights. If it keeps its data, requests that
   * are under way see it under the old id as it was, for the grace. Of a session that another
   * request has ended meanwhile nothing is kept: that is an error, and without `keep` no
   * difference. */
  regenerate ({ keep = false } = {}) {
    return this.#alone(async () => {
      const fresh = newId()
      if (this.#text !== null && !await this.#moved(fresh, keep)) this.#text = null
      this.#id = fresh
      if (!keep) this.#load({})
    })
  }

  /** Ends it: a log-out. What comes after it is a new session. */
  destroy () {
    return this.#alone(async () => {
      const id = this.#id
      if (id !== undefined) await this.#ask((ticket) => this.#request.destroy(ticket, id))
      this.#id = undefined
      this.#text = null
      this.#owner = undefined
      this.announced = false
      this.#load({})
    })
  }

  /** Gives the lock back without saving. */
  release () {
    return this.#alone(() => this.#close())
  }

  /** The client has left: nobody waits for the lock any more, and one that is taken later is given
   * back at once. */
  leave () {
    this.#left = true
    return this.release()
  }

  async [Symbol.asyncDispose ?? Symbol.for('nodejs.asyncDispose')] () {
    await this.release()
  }

  // A call begins when the one before it has ended, so that none waits for the other in the addon.
  #alone (call) {
    const done = this.#last.then(call)
    const after = () => this.#left && this.#close()
    this.#last = done.then(after, after).catch(() => {})
    return done
  }

  #ask (call) {
    return ask(this.#sessions.store, call)
  }

  #askOrWait (call) {
    return askOrWait(this.#sessions.store, this.#id, call)
  }

  #wait (call) {
    return wait(this.#sessions.store, this.#id, call)
  }

  async #close () {
    if (this.#request.isOpen()) await this.#ask((ticket) => this.#request.close(ticket, true))
  }

  // False if there is nothing to move: another request has ended the session.
  async #moved (fresh, keep) {
    const request = this.#request
    try {
      if (!request.isOpen()) await this.#reopen()
    } catch (error) {
      const lost = NOT_REOPENED[error.code]
      if (lost === undefined) throw error
      if (keep) throw new DestroyedError(LOST[lost])
      return false
    }
    const move = (ticket) => request.regenerate(ticket, this.#id, fresh, keep)
    await (request.holdsLock() ? this.#ask(move) : this.#wait(move))
    return true
  }

  #reopen () {
    return this.#wait((ticket) => this.#request.reopen(ticket, this.#id, this.#text))
  }

  #load (data) {
    this.idleMs = takenIdle(data)
    this.data = this.#shape(data)
  }

  // Null if it cannot be serialised: the save then says so.
  #dumped () {
    const { data, idleMs } = this
    // A value of the application, for example of the body of a request, sets no time.
    const isOwn = idleMs === undefined && !Object.hasOwn(data, IDLE)
    try {
      return JSON.stringify(isOwn ? data : { ...data, [IDLE]: idleMs })
    } catch {
      return null
    }
  }
}

module.exports = { Sessions, Held, IDLE_MS_MAX, LOST, newId }
