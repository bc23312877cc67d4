// A Store for express-session that loses no change silently.
//
// `get` and `set` do not know their request, so they cannot hold a lock over it. Instead the store
// remembers what each session object was read from, and a `set` that finds something else stored
// is a conflict.
'use strict'

const { createHash } = require('node:crypto')
const session = require('express-session')
const { native, openStore, checked, json, ask, takeTime, now, wait } = require('./native')
const { IDLE_MS_MAX } = require('./sessions')

const DAY_MS = 86_400_000
const CONFLICTS_MAX = 10

/** The text that a session object was read from or stored as, in a private field of the object. A
 * WeakMap does the same, and costs the garbage collector a fifth of a request. */
class Base extends (function (session) { return session }) {
  #text

  static of (session) {
    return #text in session ? session.#text : undefined
  }

  static remember (session, text) {
    // The constructor of a derived class adds its fields to what that of its base returns.
    if (!(#text in session)) new Base(session)
    session.#text = text
  }
}

class SessileStore extends session.Store {
  #store
  #rules
  #ttlMs
  #resolve

  /** `options` are described in types/express-session.d.ts. */
  constructor ({ url, ttlMs = DAY_MS, lockWaitMs, onConflict = 'error', ...options }) {
    super()
    const resolve = { error: null, merge: null, 'last-wins': (base, mine) => mine }[onConflict]
    if (resolve === undefined && typeof onConflict !== 'function') {
      throw new TypeError('onConflict is error, last-wins, merge or a function')
    }
    this.#resolve = resolve === undefined ? onConflict : resolve
    this.#ttlMs = ttlMs
    this.#store = openStore(url, options)
    const concurrency = onConflict === 'merge' ? 'merge' : 'detect'
    this.#rules = checked(native.makeRules({ idleMs: ttlMs, concurrency, lockWaitMs }))
  }

  createSession (req, data) {
    const made = super.createSession(req, data)
    Base.remember(made, Base.of(data))
    return made
  }

  get (sid, callback) {
    this.#answer(callback, () => this.#peek(keyOf(sid), false), (peeked) => sessionOf(peeked))
  }

  set (sid, session, callback) {
    const lifeMs = this.#lifeMs(session)
    if (lifeMs <= 0) return this.destroy(sid, callback)
    this.#answer(callback, () => {
      const text = textOf(session)
      const remember = () => { Base.remember(session, text) }
      const refused = (error) => this.#conflict(error, sid, session, lifeMs)
      let stored
      try {
        stored = this.#set(sid, Base.of(session), text, lifeMs)
      } catch (error) {
        return refused(error)
      }
      return stored instanceof Promise ? stored.then(remember, refused) : remember()
    })
  }

  touch (sid, session, callback) {
    const touch = (ticket) => this.#store.touch(ticket, keyOf(sid), this.#lifeMs(session))
    this.#answer(callback, () => this.#ask(touch), undefined, ['gone', 'destroyed'])
  }

  destroy (sid, callback) {
    this.#answer(callback, () =>
      this.#ask((ticket) => this.#store.destroy(ticket, keyOf(sid), false)))
  }

  all (callback) {
    this.#answer(callback, async () => {
      const found = []
      for await (const { ids, digests } of this.#pages()) {
        const peeked = await Promise.all(ids.map((id) => this.#peek(id, true)))
        peeked.map(sessionOf).forEach((session, at) => {
          if (session) found.push(digests ? session : { id: ids[at], ...session })
        })
      }
      return found
    })
  }

  length (callback) {
    this.#answer(callback, async () => {
      let count = 0
      for await (const { ids } of this.#pages()) count += ids.length
      return count
    })
  }

  clear (callback) {
    this.#answer(callback, async () => {
      for await (const { ids } of this.#pages()) {
        await Promise.all(ids.map((id) =>
          this.#ask((ticket) => this.#store.destroy(ticket, id, true))))
      }
    })
  }

  /** Another request has stored the session since it was read. */
  async #conflict (error, sid, session, lifeMs) {
    // After a log-out nothing comes back.
    if (error.code === 'destroyed') return
    for (let tries = 1; error.code === 'stale'; tries++) {
      this.emit('conflict', sid)
      if (!this.#resolve || tries > CONFLICTS_MAX) throw error
      const peeked = await this.#peek(keyOf(sid), false)
      if (peeked === null) return
      const theirs = sessionOf(peeked)
      const base = sessionOf((Base.of(session) ?? '{}') + peeked.slice(-15))
      const text = textOf(await this.#resolve(base, session, theirs))
      try {
        await this.#set(sid, peeked.slice(0, -15), text, lifeMs)
        Base.remember(session, text)
        return
      } catch (again) {
        error = again
      }
    }
    throw error
  }

  #set (sid, base, text, lifeMs) {
    const [store, key] = [this.#store, keyOf(sid)]
    const set = (ticket) => store.set(ticket, key, base, text, this.#rules, lifeMs)
    if (!store.answersAtOnce) return wait(store, key, set)
    try {
      return now(set)
    } catch (error) {
      if (error.code !== 'lock-timeout') throw error
      return wait(store, key, set)
    }
  }

  async * #pages () {
    let after
    do {
      const page = await takeTime((ticket) => this.#store.list(ticket, after))
      yield page
      after = page.next ?? undefined
    } while (after !== undefined)
  }

  #peek (id, listed) {
    return this.#ask((ticket) => this.#store.peek(ticket, id, listed))
  }

  #ask (call) {
    return ask(this.#store, call)
  }

  #lifeMs ({ cookie }) {
    const lifeMs = cookie?.expires ? new Date(cookie.expires) - Date.now() : this.#ttlMs
    // An invalid date is an error of the cookie, which express-session reports.
    return Number.isNaN(lifeMs) ? this.#ttlMs : Math.min(lifeMs, IDLE_MS_MAX)
  }

  // The callback comes after the call has returned, whether the store has answered at once or not.
  #answer (callback, call, then = (value) => value, ignored = []) {
    const done = (error, value) => {
      if (error && ignored.includes(error.code)) error = null
      if (callback) process.nextTick(callback, error, value)
      else if (error) process.emitWarning(error)
    }
    try {
      const answer = call()
      if (answer instanceof Promise) answer.then(then).then((value) => done(null, value), done)
      else done(null, then(answer))
    } catch (error) {
      done(error)
    }
  }
}

/** The id of a store. With `genid` an application may make ids that no store takes. */
function keyOf (sid) {
  return /^[\w,-]{1,256}$/.test(sid) ? sid : createHash('sha256').update(sid).digest('base64url')
}

/** What is stored: when it expires is the store's business, and differs in each request. */
function textOf (session) {
  const cookie = session.cookie
  if (typeof cookie?.originalMaxAge !== 'number') return JSON.stringify(session)
  const { expires, ...kept } = cookie.toJSON ? cookie.toJSON() : cookie
  return JSON.stringify({ ...session, cookie: kept })
}

function sessionOf (peeked) {
  if (peeked === null) return undefined
  const text = peeked.slice(0, -15)
  const session = json(text)
  if (typeof session.cookie?.originalMaxAge === 'number') {
    session.cookie.expires = new Date(Number(peeked.slice(-15))).toISOString()
  }
  Base.remember(session, text)
  return session
}

module.exports = { SessileStore }
