// The plugin for Fastify.
'use strict'

const assert = require('node:assert')
const { Readable } = require('node:stream')
const { test } = require('node:test')
const stores = require('./stores')
const { Visitor } = require('./visitor')

async function visit (context, options, pages) {
  const app = require('fastify')()
  await app.register(require('../lib/fastify'), { url: stores.engine(), ...options })
  app.get('/count', async (request) => {
    request.session.n = (request.session.n ?? 0) + 1
    return String(request.session.n)
  })
  pages(app)
  await app.listen({ port: 0, host: '127.0.0.1' })
  context.after(() => app.close())
  return new Visitor(app.server)
}

test('Fastify: a session is kept, ended and held', async (context) => {
  const visitor = await visit(context, { lockWaitMs: 5000 }, (app) => {
    app.get('/throw', async () => { throw new Error('a defect') })
    app.get('/stream', async (request) => {
      request.session.streamed = true
      return Readable.from(['a', 'b'])
    })
    app.get('/see', async (request) => ({ ...request.session }))
    app.get('/log-out', async (request) => {
      await request.session.destroy()
      return 'out'
    })
  })
  assert.equal((await visitor.get('/count')).body, '1')
  assert.equal((await visitor.get('/throw')).status, 500)
  assert.equal((await visitor.get('/stream')).body, 'ab')
  assert.equal((await visitor.get('/see')).body, '{"n":1,"streamed":true}')
  const counts = Array.from({ length: 10 }, () => visitor.get('/count'))
  const bodies = (await Promise.all(counts)).map(({ body }) => Number(body))
  assert.deepEqual(bodies.sort((a, b) => a - b), [2, 3, 4, 5, 6, 7, 8, 9, 10, 11])
  await visitor.get('/log-out')
  assert.equal(visitor.cookie, undefined)
})

test('Fastify: a save that fails is an error', async (context) => {
  const visitor = await visit(context, { payloadBytesMax: 1000 }, (app) => {
    app.get('/large', async (request) => {
      request.session.large = 'x'.repeat(2000)
      return 'saved'
    })
  })
  const { status, body } = await visitor.get('/large')
  assert.equal(status, 500)
  assert.equal(JSON.parse(body).code, 'too-large')
})
