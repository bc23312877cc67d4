// Stores and sessions without a framework.
'use strict'

const assert = require('node:assert')
const { spawnSync } = require('node:child_process')
const { readFileSync } = require('node:fs')
const path = require('node:path')
const { test } = require('node:test')
const { Worker } = require('node:worker_threads')
const { open, sessile, byCode, LockTimeoutError, SessileError } = require('..')
const { native, checked } = require('../lib/native')
const stores = require('./stores')

test('a session is kept, and requests of one session take turns', async () => {
  const sessions = open(stores.engine())
  const first = await sessions.begin()
  first.data.n = 1
  assert.equal(await first.commit(), 'stored')
  const second = await sessions.begin(first.id)
  const third = sessions.begin(first.id)
  second.data.n++
  await second.commit()
  assert.deepEqual((await third).data, { n: 2 })
  await (await third).release()
  assert.deepEqual(await sessions.peek(first.id), { n: 2 })
  await sessions.destroy(first.id)
  assert.equal(await sessions.peek(first.id), null)
})

test('the sessions of a user are ended everywhere, but for one', async () => {
  const sessions = open(stores.engine())
  const ids = []
  for (const owner of ['17', '17', '18']) {
    const session = await sessions.begin()
    session.data.cart = 1
    session.setOwner(owner)
    await session.commit()
    ids.push(session.id)
  }
  const changed = await sessions.begin(ids[1])
  changed.data.cart = 2
  await changed.commit() // the owner stays
  assert.equal(await sessions.revoke('17', { but: ids[0] }), 1)
  const left = await Promise.all(ids.map((id) => sessions.peek(id)))
  assert.deepEqual(left, [{ cart: 1 }, null, { cart: 1 }])
  const leaves = await sessions.begin(ids[0])
  leaves.setOwner(null)
  assert.equal(await leaves.save(), 'stored', 'the owner alone is a change')
  assert.equal(await sessions.revoke('17'), 0)
  assert.throws(() => leaves.setOwner(''), TypeError)
  await assert.rejects(sessions.revoke(''), { code: 'invalid-argument' })
})

test('a session that is used once ends early, also if its request saves twice', async () => {
  const firstLifetimeMs = 1000
  const sessions = open(stores.engine(), { firstLifetimeMs })
  const [once, twice, owned] = await Promise.all([1, 2, 3].map(() => sessions.begin()))
  owned.setOwner('17')
  for (const one of [once, twice, owned]) {
    one.data.cart = 1
    await one.commit()
  }
  once.data.cart = 2
  await once.commit()
  await (await sessions.begin(twice.id)).save()
  await new Promise((resolve) => setTimeout(resolve, firstLifetimeMs + 100))
  const left = await Promise.all([once, twice, owned].map(({ id }) => sessions.peek(id)))
  assert.deepEqual(left, [null, { cart: 1 }, { cart: 1 }])
})

// A download that had saved first held the visitor's other requests until it ended.
test('a save of an unchanged session gives its lock back', async () => {
  const sessions = open(stores.engine(), { lockWaitMs: 20 })
  const first = await sessions.begin()
  first.data.n = 1
  await first.commit()
  const reader = await sessions.begin(first.id)
  assert.equal(await reader.save(), 'touched')
  const next = await sessions.begin(first.id)
  assert.deepEqual(next.data, { n: 1 })
  await next.release()
})

test('an id that the store does not know is not taken', async () => {
  const sessions = open(stores.engine())
  const session = await sessions.begin('planted')
  assert.notEqual(session.id, 'planted')
  assert.equal(session.isNew, true)
})

test('a wait that is too long names the holder', async () => {
  const sessions = open(stores.engine(), { lockWaitMs: 20 })
  const holder = await sessions.begin()
  holder.data.n = 1
  await holder.commit()
  const again = await sessions.begin(holder.id)
  await assert.rejects(sessions.begin(holder.id), (error) => {
    assert(error instanceof LockTimeoutError && error instanceof SessileError)
    assert.equal(error.code, 'lock-timeout')
    assert.equal(error.holderPid, process.pid)
    assert(error.waitedMs >= 20)
    return !error.message.includes(holder.id)
  })
  await again.release()
  assert.equal(sessions.counters().lockTimeouts, 1)
})

test('a wait does not block the event loop', async () => {
  const sessions = open(stores.engine())
  const holder = await sessions.begin()
  holder.data.n = 1
  await holder.commit()
  const held = await sessions.begin(holder.id)
  const waiting = sessions.begin(holder.id)
  let turns = 0
  for (; turns < 100; turns++) await new Promise(setImmediate)
  assert.equal(turns, 100)
  await held.release()
  await (await waiting).release()
})

test('of many waiting requests all get their turn, and none waits for a thread', async () => {
  for (const url of [stores.engine(), await stores.redis()]) {
    if (url === undefined) continue
    const sessions = open(url)
    const first = await sessions.begin()
    first.data.n = 0
    await first.commit()
    await Promise.all(Array.from({ length: 200 }, async () => {
      const session = await sessions.begin(first.id)
      session.data.n++
      await session.commit()
    }))
    assert.deepEqual(await sessions.peek(first.id), { n: 200 })
  }
})

// 64 requests of one visitor took all threads for waits, and held up everybody who waited.
test('the waits of one visitor hold up no other', async () => {
  const sessions = open(stores.engine())
  const stored = async () => {
    const session = await sessions.begin()
    session.data.n = 0
    await session.commit()
    return session.id
  }
  const [busy, other] = [await stored(), await stored()]
  const blocking = await sessions.begin(busy)
  const crowd = Array.from({ length: 200 }, () => sessions.begin(busy))
  const held = await sessions.begin(other)
  const next = sessions.begin(other)
  await held.release()
  await (await next).release()
  await blocking.release()
  for (const waiting of crowd) await (await waiting).release()
})

test('time in line is a part of the wait', async () => {
  const sessions = open(stores.engine(), { lockWaitMs: 1000 })
  const first = await sessions.begin()
  first.data.n = 0
  await first.commit()
  const holder = await sessions.begin(first.id)
  const begun = performance.now()
  const told = await Promise.allSettled(Array.from({ length: 10 }, () => sessions.begin(first.id)))
  assert(performance.now() - begun < 6000)
  for (const { reason } of told) {
    assert.equal(reason.code, 'lock-timeout')
    assert(reason.waitedMs >= 999, `it says ${reason.waitedMs} ms`)
  }
  await holder.release()
})

// Its first save takes the lock, which another request may have by then.
test('the first save of a session waits beside the event loop', async () => {
  const sessions = open(stores.engine())
  const session = await sessions.begin()
  session.data.n = 1
  const holder = new native.Request(sessions.store, sessions.rules)
  checked(holder.open(0, session.id, 'at-once', false))
  const saved = session.commit()
  for (let turns = 0; turns < 100; turns++) await new Promise(setImmediate)
  checked(holder.close(0, true))
  assert.equal(await saved, 'stored')
})

test('a time of its own stays with a session, and is no value of it', async () => {
  const sessions = open(stores.engine())
  const first = await sessions.begin()
  first.data.n = 1
  first.idleMs = 30 * 86_400_000
  await first.commit()
  const second = await sessions.begin(first.id)
  assert.deepEqual(second.data, { n: 1 })
  assert.equal(second.idleMs, first.idleMs)
  second.data.n++
  await second.commit()
  assert.deepEqual(await sessions.peek(first.id), { n: 2 })
  const lives = Number(sessions.store.peek(0, first.id, false).slice(-15)) - Date.now()
  assert(Math.abs(lives - first.idleMs) < 60_000)
  await second.regenerate()
  assert.equal(second.idleMs, undefined)
})

// A session of 5,000 years, or one whose requests all failed, for an application that keeps bodies.
test('a value that is named like the time of touch sets no time', async () => {
  const key = 'sessile:idleMs'
  const sessions = open(stores.engine(), { idleMs: 60_000 })
  const livesFor = (id) => Number(sessions.store.peek(0, id, false).slice(-15)) - Date.now()
  for (const value of ['"x"', '-1', '0', 'null', '1e15', '1e999', '{}', '600000']) {
    const session = await sessions.begin()
    session.data = JSON.parse(`{"n":1,"${key}":${value}}`)
    await session.commit()
    assert(livesFor(session.id) <= 60_000)
    const next = await sessions.begin(session.id)
    assert.deepEqual([next.data, next.idleMs], [{ n: 1 }, undefined])
    next.idleMs = 30_000
    Object.assign(next.data, JSON.parse(`{"${key}":${value}}`))
    await next.commit()
    assert(livesFor(session.id) <= 30_000)
    // As another program may write it.
    const request = new native.Request(sessions.store, sessions.rules)
    const text = `{"n":1,"${key}":${value}}`
    checked(request.open(0, session.id, 'at-once', false))
    checked(request.save(0, session.id, text, true, false, true, 60_000))
    checked(request.close(0, true))
    const last = await sessions.begin(session.id)
    assert.deepEqual([last.data, last.idleMs], [{ n: 1 }, value === '600000' ? 600_000 : undefined])
    await last.commit()
  }
  const session = await sessions.begin()
  for (const wrong of ['x', -1, 0, null, NaN, Infinity, 1e15]) {
    assert.throws(() => { session.idleMs = wrong }, RangeError)
  }
})

test('merged requests wait for nobody and lose nothing', async () => {
  const sessions = open(stores.engine(), { mode: 'merge' })
  const first = await sessions.begin()
  first.data.cart = {}
  await first.commit()
  const [a, b] = [await sessions.begin(first.id), await sessions.begin(first.id)]
  a.data.cart.book = 1
  b.data.cart.pen = 2
  await a.commit()
  await b.commit()
  assert.deepEqual(await sessions.peek(first.id), { cart: { book: 1, pen: 2 } })
  const [c, d] = [await sessions.begin(first.id), await sessions.begin(first.id)]
  c.data.last = 'c'
  d.data.last = 'd'
  await c.commit()
  await d.commit()
  assert.equal(sessions.counters().mergeConflicts, 1)
})

// One save in flight sent every open of its session into the threads for waits, one by one.
test('what takes no lock stands in no line', async () => {
  for (const mode of ['merge', 'detect']) {
    const sessions = open(stores.engine(), { mode })
    const first = await sessions.begin()
    first.data.n = 1
    await first.commit()
    sessions.store.lines.set(first.id, new Promise(() => {}))
    assert.deepEqual((await sessions.begin(first.id)).data, { n: 1 })
  }
})

test('a session that was destroyed stays destroyed', async () => {
  const sessions = open(stores.engine())
  const first = await sessions.begin()
  first.data.user = 1
  await first.commit()
  const late = await sessions.begin(first.id)
  await sessions.destroy(first.id)
  late.data.user = 2
  await assert.rejects(late.commit(), { code: 'destroyed' })
  await late.release()
  assert.equal(await sessions.peek(first.id), null)
})

// It threw what its reopening threw: a failure after a log-out, and no 409 under an old id.
test('a second save names what another request has ended', async () => {
  const sessions = open(stores.engine())
  const ends = {
    'logged-out': (id) => sessions.destroy(id),
    replaced: async (id) => {
      const other = await sessions.begin(id)
      await other.regenerate({ keep: true })
      await other.commit()
    }
  }
  for (const [ended, end] of Object.entries(ends)) {
    const session = await sessions.begin()
    session.data.n = 1
    await session.commit()
    await end(session.id)
    session.data.n = 2
    assert.equal(await session.save(), ended)
    await assert.rejects(session.commit(), { code: 'destroyed' })
  }
})

// It threw, where express-session makes a new session whatever has become of the old one.
test('a new id after a save does not fail because another request has ended the session', async () => {
  const sessions = open(stores.engine())
  const ends = {
    'log-out': (id) => sessions.destroy(id),
    'another id': async (id) => {
      const other = await sessions.begin(id)
      await other.regenerate({ keep: true })
      await other.commit()
    }
  }
  for (const [name, end] of Object.entries(ends)) {
    const session = await sessions.begin()
    session.data.user = 1
    await session.commit()
    const old = session.id
    await end(old)
    // Its values would come back under the new id.
    await assert.rejects(session.regenerate({ keep: true }), { code: 'destroyed' }, name)
    assert.equal(session.id, old)
    await session.regenerate()
    assert.notEqual(session.id, old)
    assert.deepEqual(session.data, {}, name)
    session.data.user = 2
    await session.commit()
    assert.deepEqual(await sessions.peek(session.id), { user: 2 })
    assert.equal(await sessions.peek(old), null, name)
  }
})

test('a session that cannot be serialised is refused, and what was stored stays', async () => {
  const sessions = open(stores.engine())
  const first = await sessions.begin()
  first.data.n = 1
  await first.commit()
  const second = await sessions.begin(first.id)
  second.data.self = second.data
  await assert.rejects(second.commit(), { code: 'invalid-argument' })
  assert.deepEqual(await sessions.peek(first.id), { n: 1 })
})

test('a new id leaves the old one empty, or as it was for the grace', async () => {
  const sessions = open(stores.engine())
  const first = await sessions.begin()
  first.data.cart = 1
  await first.commit()
  const old = first.id
  const second = await sessions.begin(old)
  await second.regenerate({ keep: true })
  second.data.user = 7
  await second.commit()
  assert.deepEqual(await sessions.peek(second.id), { cart: 1, user: 7 })
  assert.equal(await sessions.peek(old), null, 'whoever knows the old id is not logged in')
  const late = await sessions.begin(old)
  assert.deepEqual(late.data, { cart: 1 })
  const third = await sessions.begin(second.id)
  await third.regenerate()
  assert.deepEqual(third.data, {})
  third.data.user = 8
  await third.commit()
  assert.equal(await sessions.peek(second.id), null)
  assert.deepEqual(await sessions.peek(third.id), { user: 8 })
})

test('malformed settings are refused at once', () => {
  assert.throws(() => open('nowhere:'), { code: 'invalid-url' })
  assert.throws(() => open(stores.engine(), { idleMs: -1 }), { code: 'invalid-argument' })
  assert.throws(() => open(stores.engine(), { mode: 'both' }), { code: 'invalid-argument' })
  assert.throws(() => sessile({ url: stores.engine(), name: 'a b' }), TypeError)
})

test('a server that is not there fails the request and not the start', async () => {
  const sessions = open(`redis+unix://${stores.directory()}/none.sock`)
  await assert.rejects(sessions.begin('a'.repeat(32)), { code: 'unreachable' })
})

test('each kind of error is a class, as crates/capi/ERRORS.md says', () => {
  const table = path.join(__dirname, '../../../crates/capi/ERRORS.md')
  const [title, , ...rows] = readFileSync(table, 'utf8')
    .split('\n').filter((line) => line.startsWith('|')).map((line) => line.split(' | '))
  const node = title.indexOf('Node')
  const bare = (cell) => cell.replaceAll('`', '')
  const told = rows.map((row) => [bare(row[0].slice(2)), bare(row[node])])
  const known = Object.entries(byCode).map(([code, { name }]) => [code, name])
  assert.deepEqual(known, told)
  const types = readFileSync(path.join(__dirname, '../types/index.d.ts'), 'utf8')
  for (const { name } of Object.values(byCode)) {
    assert(types.includes(`export class ${name} extends SessileError`), name)
  }
})

const COUNTER = `
  const { workerData, parentPort } = require('node:worker_threads')
  const { open } = require(workerData.index)
  const sessions = open(workerData.url)
  ;(async () => {
    setImmediate(() => parentPort.postMessage('waits'))
    for (let i = 0; i < workerData.requests; i++) {
      const session = await sessions.begin(workerData.id)
      session.data.n++
      await session.commit()
    }
    parentPort.postMessage('done')
  })()`

function counter (url, id, requests) {
  const workerData = { index: path.join(__dirname, '..'), url, id, requests }
  return new Worker(COUNTER, { eval: true, workerData })
}

function says (worker, word) {
  return new Promise((resolve, reject) => {
    worker.on('message', (said) => { if (said === word) resolve() }).once('error', reject)
  })
}

test('worker threads share a store, and one that ends in a wait disturbs nobody', async () => {
  const url = stores.engine()
  const sessions = open(url)
  const first = await sessions.begin()
  first.data.n = 0
  await first.commit()
  const counters = [1, 2, 3, 4].map(() => counter(url, first.id, 100))
  await Promise.all(counters.map((worker) => says(worker, 'done')))
  await Promise.all(counters.map((worker) => worker.terminate()))
  assert.deepEqual(await sessions.peek(first.id), { n: 400 })

  for (let round = 0; round < 20; round++) {
    const held = await sessions.begin(first.id)
    const waiting = counter(url, first.id, 1)
    await says(waiting, 'waits')
    await waiting.terminate()
    held.data.n = round
    await held.commit()
    // Its thread gets the lock, and gives it back because nobody takes the answer.
    const next = await sessions.begin(first.id)
    assert.deepEqual(next.data, { n: round })
    await next.release()
  }
})

// Node unloads an addon with the last thread that has loaded it, while threads of the addon run.
test('a program whose workers alone load the addon outlives them', () => {
  const args = [path.join(__dirname, 'workers/main.js'), stores.engine(), '20']
  const { status, signal, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' })
  assert.deepEqual([status, signal], [0, null], stderr)
})

test('the package is there for ES modules', async () => {
  const module = await import('../lib/index.mjs')
  assert.equal(module.default, sessile)
  assert.equal(module.open, open)
  for (const name of Object.keys(require('..'))) assert(name in module, name)
  for (const part of ['express-session', 'fastify']) {
    const { default: made } = await import(`../lib/${part}.mjs`)
    const required = require(`../lib/${part}`)
    assert.equal(made, required.SessileStore ?? required)
  }
})
