// The Store under express-session: what its own tests expect of a store, and conflicts.
'use strict'

const assert = require('node:assert')
const { test } = require('node:test')
const { promisify } = require('node:util')
const express = require('express')
const session = require('express-session')
const { open } = require('..')
const { SessileStore } = require('../lib/express-session')
const { native } = require('../lib/native')
const stores = require('./stores')
const { visit } = require('./visitor')

/** A store whose methods return promises. */
function promising (store) {
  const names = ['get', 'set', 'touch', 'destroy', 'all', 'length', 'clear', 'load']
  return Object.fromEntries(names.map((name) => [name, promisify(store[name]).bind(store)]))
}

/** An application with a page for each thing that one does with a session. */
function application (store, options) {
  const app = express()
  app.use(session({ store, secret: 'a', resave: false, saveUninitialized: false, ...options }))
  app.get('/count', (req, res) => {
    req.session.n = (req.session.n ?? 0) + 1
    res.send(String(req.session.n))
  })
  app.get('/see', (req, res) => res.json({ ...req.session, cookie: undefined }))
  app.get('/id', (req, res) => res.send(req.sessionID))
  app.get('/cookie', (req, res) => res.json(req.session.cookie))
  app.get('/regenerate', (req, res, next) => {
    req.session.regenerate((error) => {
      if (error) return next(error)
      req.session.user = 1
      res.send(req.session.id)
    })
  })
  app.get('/destroy', (req, res, next) => {
    req.session.destroy((error) => (error ? next(error) : res.send(String(req.session))))
  })
  app.get('/reload', (req, res, next) => {
    req.session.n = 'changed'
    req.session.reload((error) => (error ? next(error) : res.send(String(req.session.n))))
  })
  app.get('/save', (req, res, next) => {
    req.session.saved = true
    req.session.save((error) => (error ? next(error) : res.send('saved')))
  })
  app.use((error, req, res, next) => res.headersSent || res.status(500).send(error.code))
  return app
}

test('a store keeps what connect-redis keeps', async (context) => {
  const urls = {
    engine: stores.engine(),
    memory: 'memory:',
    redis: await stores.redis(),
    sqlite: `sqlite:${stores.directory()}/sessions.db`,
    files: `files:${stores.directory()}`
  }
  for (const [kind, url] of Object.entries(urls)) {
    await context.test(kind, { skip: !url && `${kind} is missing` }, async () => {
      const store = promising(new SessileStore({ url }))
      await store.clear()
      await store.set('123', { foo: 'bar' })
      assert.deepEqual(await store.get('123'), { foo: 'bar' })
      assert.equal(await store.get('none'), undefined)
      const expires = new Date(Date.now() + 60_000).toISOString()
      await store.set('456', { cookie: { expires } })
      await store.touch('456', { cookie: { expires: new Date(Date.now() + 90_000) } })
      await store.touch('none', { cookie: {} })
      assert.equal(await store.length(), 2)
      const all = await store.all()
      assert.equal(all.length, 2)
      if (kind !== 'engine') all.sort((a, b) => a.id - b.id)
      const [first] = all.filter((found) => found.foo)
      assert.deepEqual({ foo: 'bar', ...(first.id && { id: '123' }) }, first)
      await store.destroy('456')
      await store.destroy('456')
      assert.equal(await store.length(), 1)
      await store.set('789', { cookie: { expires: new Date(0) } })
      assert.equal(await store.get('789'), undefined)
      await Promise.all(Array.from({ length: 50 }, (_, at) => store.set(`s${at}`, { at })))
      assert.equal(await store.length(), 51)
      await store.clear()
      assert.equal(await store.length(), 0)
      assert.deepEqual(await store.all(), [])
    })
  }
})

test('express-session: a session is created, saved, reloaded and ended', async (context) => {
  const store = new SessileStore({ url: stores.engine() })
  const visitor = await visit(context, application(store))
  assert.equal((await visitor.get('/see')).line, undefined)
  assert.equal((await visitor.get('/count')).body, '1')
  assert.equal((await visitor.get('/count')).body, '2')
  assert.equal((await visitor.get('/reload')).body, '2')
  assert.equal((await visitor.get('/save')).body, 'saved')
  assert.equal((await visitor.get('/see')).body, '{"n":2,"saved":true}')
  const old = (await visitor.get('/id')).body
  const fresh = (await visitor.get('/regenerate')).body
  assert.notEqual(fresh, old)
  assert.equal((await visitor.get('/see')).body, '{"user":1}')
  assert.equal(await promising(store).get(old), undefined)
  assert.equal((await visitor.get('/destroy')).body, 'undefined')
  assert.equal(await promising(store).get(fresh), undefined)
  assert.equal(await promising(store).length(), 0)
})

test('express-session: a session ends with its cookie, which requests renew', async (context) => {
  const store = new SessileStore({ url: stores.engine() })
  const options = { cookie: { maxAge: 60_000 }, rolling: true }
  const visitor = await visit(context, application(store, options))
  await visitor.get('/count')
  const id = (await visitor.get('/id')).body
  const expires = async () => Date.parse((await promising(store).get(id)).cookie.expires)
  const first = await expires()
  assert(Math.abs(first - Date.now() - 60_000) < 5_000)
  while (Date.now() <= first - 60_000 + 5) await new Promise(setImmediate)
  assert.match((await visitor.get('/see')).line, /Expires=/)
  assert(await expires() > first)
  const { originalMaxAge } = JSON.parse((await visitor.get('/cookie')).body)
  assert.equal(originalMaxAge, 60_000)
  const loaded = await promising(store).load(id)
  assert(loaded.cookie.expires instanceof Date)
})

// `touch` refused the life that `set` had shortened to ten years, in each request without a change.
test('express-session: a cookie may live longer than a session can', async (context) => {
  const dayMs = 86_400_000
  for (const cookie of [{ maxAge: 20 * 365 * dayMs }, { expires: new Date('9999-12-31') }]) {
    const store = new SessileStore({ url: stores.engine() })
    const visitor = await visit(context, application(store, { cookie }))
    assert.equal((await visitor.get('/count')).body, '1')
    const { status, body } = await visitor.get('/see')
    assert.deepEqual([status, body], [200, '{"n":1}'])
    const id = (await visitor.get('/id')).body
    await promising(store).touch(id, await promising(store).get(id))
    await promising(store).touch(id, { cookie })
    assert.equal((await promising(store).get(id)).n, 1)
  }
})

// The store refused a life that is no number, so the application was told two errors.
test('express-session: a cookie with an invalid date is one error', async (context) => {
  const store = new SessileStore({ url: stores.engine() })
  const [app, told] = [express(), []]
  app.use(session({ store, secret: 'a', resave: true, cookie: { expires: new Date(NaN) } }))
  app.get('/count', (req, res) => {
    req.session.n = 1
    res.send('1')
  })
  app.use((error, req, res, next) => told.push(error.message))
  const visitor = await visit(context, app)
  await visitor.get('/count')
  assert.deepEqual(told, ['option expires is invalid'])
  const [found] = await promising(store).all()
  assert.equal(found.n, 1)
})

test('express-session: a store that fails is an error', async (context) => {
  const store = new SessileStore({ url: `redis+unix://${stores.directory()}/none.sock` })
  const visitor = await visit(context, application(store))
  const signed = require('cookie-signature').sign('a'.repeat(32), 'a')
  visitor.cookie = `connect.sid=${encodeURIComponent(`s:${signed}`)}`
  const { status, body } = await visitor.get('/count')
  assert.deepEqual([status, body], [500, 'unreachable'])
})

/** Two loads of one session, of which the first is changed and stored before the second. */
async function conflict (onConflict, mine, theirs) {
  const store = new SessileStore({ url: stores.engine(), onConflict })
  const found = []
  store.on('conflict', (sid) => found.push(sid))
  const { get, set } = promising(store)
  await set('id', { cart: {}, n: 0 })
  const [a, b] = [await get('id'), await get('id')]
  theirs(a)
  await set('id', a)
  mine(b)
  let code
  await set('id', b).catch((error) => { code = error.code })
  const { conflicts: _, ...stored } = await get('id')
  return { stored, code, found }
}

const addBook = (session) => { session.cart.book = 1 }
const addPen = (session) => { session.cart.pen = 1 }

test('a lost update is an error by default', async () => {
  const { stored, code, found } = await conflict(undefined, addPen, addBook)
  assert.equal(code, 'stale')
  assert.deepEqual(found, ['id'])
  assert.deepEqual(stored, { cart: { book: 1 }, n: 0 })
})

test('a lost update may stand, and is told', async () => {
  const { stored, code, found } = await conflict('last-wins', addPen, addBook)
  assert.deepEqual([code, found], [undefined, ['id']])
  assert.deepEqual(stored, { cart: { pen: 1 }, n: 0 })
})

test('two changes are merged by their keys', async () => {
  const { stored, found } = await conflict('merge', addPen, addBook)
  assert.deepEqual(found, [])
  assert.deepEqual(stored, { cart: { book: 1, pen: 1 }, n: 0 })
})

test('two changes are merged by a function', async () => {
  const sum = (base, mine, theirs) => ({ ...theirs, n: theirs.n + mine.n - base.n })
  const add = (session) => { session.n += 5 }
  for (const merge of [sum, async (...versions) => sum(...versions)]) {
    const { stored } = await conflict(merge, add, add)
    assert.deepEqual(stored, { cart: {}, n: 10 })
  }
})

test('parallel requests that change nothing are no conflict, also with resave', async (context) => {
  const store = new SessileStore({ url: stores.engine() })
  const app = application(store, { resave: true, cookie: { maxAge: 60_000 } })
  const conflicts = []
  store.on('conflict', (sid) => conflicts.push(sid))
  let arrived = 0
  let meet
  const all = new Promise((resolve) => { meet = resolve })
  app.get('/wait', async (req, res) => {
    if (++arrived === 3) meet()
    await all
    res.send('ok')
  })
  const visitor = await visit(context, app)
  await visitor.get('/count')
  const answers = await Promise.all([1, 2, 3].map(() => visitor.get('/wait')))
  assert.deepEqual(answers.map(({ status }) => status), [200, 200, 200])
  assert.deepEqual(conflicts, [])
})

test('a request that ends after a log-out brings nothing back', async () => {
  const store = new SessileStore({ url: stores.engine() })
  const { get, set, touch, destroy } = promising(store)
  await set('id', { user: 1 })
  const late = await get('id')
  await destroy('id')
  late.seen = true
  await set('id', late)
  await touch('id', late)
  assert.equal(await get('id'), undefined)
})

test('a request that stores its session again is a conflict only with others', async () => {
  const { get, set } = promising(new SessileStore({ url: stores.engine() }))
  const made = { n: 1 }
  await set('id', made)
  made.n++
  await set('id', made)
  const other = await get('id')
  assert.deepEqual(other, { n: 2 })
  other.other = true
  await set('id', other)
  other.again = true
  await set('id', other)
  made.n++
  await assert.rejects(set('id', made), { code: 'stale' })
  assert.deepEqual(await get('id'), { n: 2, other: true, again: true })
  await set('id', { replaced: true })
  assert.deepEqual(await get('id'), { replaced: true }, 'an object of no store replaces it')
})

// Every `unsupported` passed as a save, although nothing was stored.
test('a save under an id that was replaced is an error', async () => {
  const url = stores.engine()
  const { get, set } = promising(new SessileStore({ url }))
  await set('id', { n: 1 })
  const late = await get('id')
  const mover = await open(url).begin('id')
  await mover.regenerate({ keep: true })
  await mover.commit()
  late.n = 2
  await assert.rejects(set('id', late), { code: 'unsupported' })
  assert.deepEqual(await get(mover.id), { n: 1 })
})

test('a listing is made beside the event loop', async (context) => {
  const { all, length, clear, set } = promising(new SessileStore({ url: stores.engine() }))
  await set('id', { n: 1 })
  const list = context.mock.method(native.Store.prototype, 'list')
  assert.equal((await all()).length, await length())
  await clear()
  const tickets = list.mock.calls.map((call) => call.arguments[0])
  assert.equal(tickets.length, 3)
  assert(tickets.every((ticket) => ticket > 0))
})

test('an application may make ids of its own', async () => {
  const { all, get, set, touch, destroy } = promising(new SessileStore({ url: 'memory:' }))
  const expires = () => new Date(Date.now() + 60_000)
  const sids = ['user:7:a.b/c', '../etc', 'x'.repeat(300), `${'x'.repeat(299)}y`]
  for (const sid of sids) await set(sid, { sid, cookie: { originalMaxAge: 1, expires: expires() } })
  for (const sid of sids) {
    assert.equal((await get(sid)).sid, sid, 'each has a session of its own')
    await touch(sid, { cookie: { expires: new Date(Date.now() + 600_000) } })
    assert(Date.parse((await get(sid)).cookie.expires) > Date.now() + 500_000)
  }
  const stored = (await all()).map(({ id }) => id)
  assert(stored.every((id) => /^[\w-]{43}$/.test(id)), String(stored))
  await destroy(sids[0])
  assert.deepEqual((await all()).map(({ sid }) => sid).sort(), sids.slice(1).sort())
})
