// Opens the shop in a cluster of eight workers until Ctrl-C. STORE is the store URL; by default
// sessions are in memory and end with the shop.
'use strict'

const cluster = require('node:cluster')
const { mkdtempSync, rmSync } = require('node:fs')
const net = require('node:net')

const WORKERS = 8

/** Whether nobody listens there. */
function isFree (port) {
  return new Promise((resolve) => {
    const probe = net.createServer().once('error', () => resolve(false))
    probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(true)))
  })
}

async function main () {
  let port = 8080
  while (!await isFree(port)) {
    if (++port === 8180) throw new Error('no port from 8080 to 8179 is free')
  }
  const place = process.env.STORE ? undefined : mkdtempSync('/dev/shm/sessile-example-')
  const store = process.env.STORE || `sessile:${place}/sessions`
  for (let worker = 0; worker < WORKERS; worker++) cluster.fork({ STORE: store, PORT: port })
  let open = WORKERS
  cluster.on('listening', () => {
    if (--open > 0) return
    // Not the whole URL, which may have a password.
    const told = place ? `in ${place}` : `on ${store.split(':')[0]}`
    console.log(`The shop is open: http://127.0.0.1:${port} (sessions ${told}; Ctrl-C closes it)`)
  })
  const close = () => {
    Object.values(cluster.workers).forEach((worker) => worker.process.kill())
    if (place) rmSync(place, { recursive: true, force: true })
    process.exit()
  }
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, close)
}

if (cluster.isPrimary) {
  main()
} else {
  const { shop } = require('./shop')
  shop(process.env.STORE).listen(process.env.PORT, '127.0.0.1')
}
