// Times get + set of one session through stores of express-session: ours and those that are in
// use. Takes a private Redis and a directory in memory.
//
//   node stores.js [--json] [ROUNDS] [CALLS] [VALUES]
//
// The rows of a round follow each other, and a row is the median of its rounds. Each request adds
// one to a counter, and a row whose counter is wrong at the end has no figure.
//
// With `--json` each row is a line: `row`, `us` of a request in each round, and `checked`, the
// requests that the counter has seen; or `row` with what is `missing`, or `wrong`.
'use strict'

const { spawn, spawnSync } = require('node:child_process')
const { existsSync, mkdtempSync, rmSync } = require('node:fs')
const net = require('node:net')
const { setTimeout: sleep } = require('node:timers/promises')
const session = require('express-session')
const { SessileStore } = require('../lib/express-session')

const AS_JSON = process.argv.includes('--json')
const [ROUNDS = 7, CALLS = 2000, COUNT = 20] =
  process.argv.slice(2).filter((given) => given !== '--json').map(Number)
const VALUES =
  Object.fromEntries(Array.from({ length: COUNT }, (_, at) => [`v${at}`, 'x'.repeat(40)]))
const START_MS_MAX = 10_000

async function main () {
  const place = mkdtempSync(`${process.env.SESSILE_BENCH_DIR ?? '/dev/shm'}/node-`)
  const FileStore = require('session-file-store')(session)
  const stores = {
    sessile: new SessileStore({ url: `sessile:${place}/engine` }),
    MemoryStore: new session.MemoryStore(),
    'session-file-store': new FileStore({ path: `${place}/files`, logFn () {}, reapInterval: -1 })
  }
  const ends = [() => rmSync(place, { recursive: true, force: true })]
  try {
    const missing = await addRedis(place, stores, ends)
    const lines = await measure(stores)
    print([...lines, ...missing])
  } finally {
    ends.reverse().forEach((end) => end())
  }
}

/** Adds the stores on a private Redis, and returns the rows that are missing without it. */
async function addRedis (place, stores, ends) {
  const names = ['connect-redis, unix socket', 'connect-redis, TCP', 'sessile on redis, unix socket']
  if (spawnSync('redis-server', ['--version']).error) {
    const missing = 'redis-server (Debian package redis-server)'
    return names.map((name) => ({ row: `express ${name}`, missing }))
  }
  const [socket, port] = [`${place}/redis.sock`, await freePort()]
  const where = ['--port', port, '--bind', '127.0.0.1', '--unixsocket', socket]
  const server =
    spawn('redis-server', [...where, '--save', '', '--dir', place], { stdio: 'ignore' })
  ends.push(() => server.kill())
  const until = Date.now() + START_MS_MAX
  while (!existsSync(socket)) {
    if (Date.now() > until) throw new Error('redis-server does not start')
    await sleep(10)
  }
  const { createClient } = require('redis')
  const { RedisStore } = require('connect-redis')
  for (const [at, where] of [{ path: socket }, { host: '127.0.0.1', port }].entries()) {
    const client = await createClient({ socket: where }).connect()
    ends.push(() => client.destroy())
    // Both rows have the session `id`, on one server.
    stores[names[at]] = new RedisStore({ client, prefix: `${at}:` })
  }
  stores[names[2]] = new SessileStore({ url: `redis+unix://${socket}` })
  return []
}

async function measure (stores) {
  const taken = Object.fromEntries(Object.keys(stores).map((name) => [name, []]))
  for (const store of Object.values(stores)) {
    const cookie = { originalMaxAge: null, path: '/' }
    await called(store, 'set', 'id', { cookie, n: 0, ...VALUES })
  }
  for (let round = 0; round < ROUNDS; round++) {
    for (const [name, store] of Object.entries(stores)) {
      const begun = process.hrtime.bigint()
      for (let call = 0; call < CALLS; call++) {
        const found = await called(store, 'get', 'id')
        found.n++
        await called(store, 'set', 'id', found)
      }
      taken[name].push(Number(process.hrtime.bigint() - begun) / 1000 / CALLS)
    }
  }
  return Promise.all(Object.entries(stores).map(async ([row, store]) => {
    const { n } = await called(store, 'get', 'id')
    return n === ROUNDS * CALLS
      ? { row: `express ${row}`, us: taken[row], checked: n }
      : { row: `express ${row}`, wrong: `${n} of ${ROUNDS * CALLS} requests are counted` }
  }))
}

function print (lines) {
  if (AS_JSON) {
    lines.forEach((line) => console.log(JSON.stringify(line)))
    return
  }
  const median = (times) => [...times].sort((a, b) => a - b)[Math.floor(times.length / 2)]
  const ours = median(lines.find(({ row }) => row === 'express sessile').us)
  for (const { row, us, missing, wrong } of lines) {
    if (us === undefined) {
      console.log(`${row.padEnd(38)} ${missing ?? wrong}`)
      continue
    }
    const [time, ratio] =
      [median(us).toFixed(1).padStart(8), (median(us) / ours).toFixed(2).padStart(8)]
    console.log(`${row.padEnd(38)} ${time} us ${ratio} times ours`)
  }
}

function freePort () {
  return new Promise((resolve) => {
    const probe = net.createServer().listen(0, '127.0.0.1', () => {
      const { port } = probe.address()
      probe.close(() => resolve(port))
    })
  })
}

function called (store, name, ...args) {
  return new Promise((resolve, reject) => {
    store[name](...args, (error, value) => (error ? reject(error) : resolve(value)))
  })
}

main().then(() => process.exit())
