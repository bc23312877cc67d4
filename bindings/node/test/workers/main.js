// Starts workers that load the addon, and ends each while requests in it wait for a lock. The
// thread of a wait lives for some time after its worker.
'use strict'

const { readFileSync } = require('node:fs')
const { Worker, isMainThread, parentPort } = require('node:worker_threads')

const [url, rounds] = process.argv.slice(2)

async function terminated () {
  const worker = new Worker(__filename, { argv: [url] })
  await new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject))
  await worker.terminate()
  // The threads of the addon go on in its code.
  if (!readFileSync('/proc/self/maps', 'utf8').includes('sessile.node')) process.exit(1)
}

async function main () {
  for (let round = 0; round < Number(rounds); round++) await terminated()
}

async function work () {
  const sessions = require('../..').open(url, { lockWaitMs: 20 })
  const first = await sessions.begin()
  first.data.n = 1
  await first.commit()
  await sessions.begin(first.id)
  for (let at = 0; at < 5; at++) sessions.begin(first.id).catch(() => {})
  setImmediate(() => parentPort.postMessage('waits'))
}

if (isMainThread) main()
else work()
