// Private stores for the tests, gone with them.
'use strict'

const { spawn, spawnSync } = require('node:child_process')
const { existsSync, mkdtempSync, rmSync } = require('node:fs')
const { setTimeout: sleep } = require('node:timers/promises')
const { after } = require('node:test')

const place = mkdtempSync('/dev/shm/sessile-node-test-')
const servers = []
after(() => {
  servers.forEach((server) => server.kill())
  rmSync(place, { recursive: true, force: true })
})

/** A directory in memory. */
function directory () {
  return mkdtempSync(`${place}/`)
}

/** The URL of a fresh engine in memory, which processes share. */
function engine () {
  return `sessile:${directory()}/store`
}

/** The URL of a private Redis; undefined if there is no server, which fails in CI. */
async function redis () {
  if (spawnSync('redis-server', ['--version']).error) {
    if (process.env.CI) throw new Error('redis-server is missing')
    return undefined
  }
  const socket = `${directory()}/redis.sock`
  const args = ['--port', '0', '--unixsocket', socket, '--save', '', '--dir', place]
  servers.push(spawn('redis-server', args, { stdio: 'ignore' }))
  for (let tries = 0; !existsSync(socket) && tries < 2000; tries++) await sleep(10)
  return `redis+unix://${socket}`
}

module.exports = { directory, engine, redis }
