// Times get + set of one session through stores of express-session: ours and those that are in
// use. Takes a private Redis and a directory in memory.
//
//   node stores.js [ROUNDS] [CALLS] [VALUES]
//
// The rows of a round follow each other, and a row is the median of its rounds.
'use strict'

const { spawn } = require('node:child_process')
const { existsSync, mkdtempSync, rmSync } = require('node:fs')
const net = require('node:net')
const { setTimeout: sleep } = require('node:timers/promises')
const session = require('express-session')
const { SessileStore } = require('../lib/express-session')

const [ROUNDS = 7, CALLS = 2000, COUNT = 20] = process.argv.slice(2).map(Number)
const VALUES =
  Object.fromEntries(Array.from({ length: COUNT }, (_, at) => [`v${at}`, 'x'.repeat(40)]))

async function main () {
  const place = mkdtempSync('/dev/shm/sessile-node-bench-')
  const socket = `${place}/redis.sock`
  const port = await freePort()
  const where = ['--port', port, '--bind', '127.0.0.1', '--unixsocket', socket]
  const args = [...where, '--save', '', '--dir', place]
  const server = spawn('redis-server', args, { stdio: 'ignore' })
  while (!existsSync(socket)) await sleep(10)
  const { createClient } = require('redis')
  const { RedisStore } = require('connect-redis')
  const connected = (socket) => createClient({ socket }).connect()
  const clients = [await connected({ path: socket }), await connected({ host: '127.0.0.1', port })]
  const FileStore = require('session-file-store')(session)
  const stores = {
    sessile: new SessileStore({ url: `sessile:${place}/engine` }),
    MemoryStore: new session.MemoryStore(),
    'session-file-store': new FileStore({ path: `${place}/files`, logFn () {}, reapInterval: -1 }),
    'connect-redis, unix socket': new RedisStore({ client: clients[0] }),
    'connect-redis, TCP': new RedisStore({ client: clients[1] }),
    'sessile on redis, unix socket': new SessileStore({ url: `redis+unix://${socket}` })
  }
  try {
    await measure(stores)
  } finally {
    clients.forEach((client) => client.destroy())
    server.kill()
    rmSync(place, { recursive: true, force: true })
  }
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
  const median = (times) => times.sort((a, b) => a - b)[Math.floor(times.length / 2)]
  const ours = median(taken.sessile)
  for (const [name, times] of Object.entries(taken)) {
    const us = median(times)
    const [time, ratio] = [us.toFixed(1).padStart(8), (us / ours).toFixed(2).padStart(8)]
    console.log(`${name.padEnd(30)} ${time} us ${ratio} times ours`)
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
