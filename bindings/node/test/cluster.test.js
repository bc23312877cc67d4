// Eight workers of a cluster, a thousand requests each, one session: none is lost.
'use strict'

const assert = require('node:assert')
const cluster = require('node:cluster')
const http = require('node:http')
const path = require('node:path')
const { test } = require('node:test')
const stores = require('./stores')

const WORKERS = 8
const REQUESTS = 1000

test('eight workers of a cluster lose nothing', async (context) => {
  cluster.setupPrimary({
    exec: path.join(__dirname, 'cluster/worker.js'),
    args: [stores.engine()],
    execArgv: []
  })
  const workers = Array.from({ length: WORKERS }, () => cluster.fork())
  context.after(() => workers.forEach((worker) => worker.process.kill()))
  const addresses = await Promise.all(workers.map((worker) =>
    new Promise((resolve) => worker.once('listening', resolve))))
  const [{ port }] = addresses
  const served = new Set()
  const get = (cookie) => new Promise((resolve, reject) => {
    // A connection for each request, so that all workers get some.
    const headers = cookie ? { cookie } : {}
    http.get({ port, path: '/', headers, agent: false }, (response) => {
      let body = ''
      response.on('data', (data) => { body += data }).on('error', reject).on('end', () => {
        assert.equal(response.statusCode, 200)
        served.add(response.headers['x-worker'])
        resolve({ n: Number(body), cookie: response.headers['set-cookie']?.[0].split(';')[0] })
      })
    }).on('error', reject)
  })
  const { cookie } = await get()
  const visitors = Array.from({ length: WORKERS }, async () => {
    for (let request = 0; request < REQUESTS; request++) await get(cookie)
  })
  await Promise.all(visitors)
  assert.equal((await get(cookie)).n, WORKERS * REQUESTS + 2)
  assert.equal(served.size, WORKERS)
})
