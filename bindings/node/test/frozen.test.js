// A response that was ended and waits for its save: what comes after its end changes nothing of it.
'use strict'

const assert = require('node:assert')
const http = require('node:http')
const net = require('node:net')
const { Readable } = require('node:stream')
const { pipeline } = require('node:stream/promises')
const { test } = require('node:test')
const { setTimeout: sleep } = require('node:timers/promises')
const express = require('express')
const { sessile } = require('..')
const { Held } = require('../lib/sessions')
const stores = require('./stores')
const { visit } = require('./visitor')

/** Each request changes its session, so that each response waits for a save. */
function change (req, res, next) {
  req.session.n = (req.session.n ?? 0) + 1
  next()
}

/** An application of Express with one page, `/`, and the error handler of its manual. */
function expressWith (page, options) {
  const app = express().set('env', 'test')
  app.use(sessile({ url: stores.engine(), ...options }), change)
  app.get('/', page)
  app.use((req, res) => res.status(404).send('there is no such page'))
  app.use((error, req, res, next) => {
    if (res.headersSent) return next(error)
    res.status(500).send('failed')
  })
  return app
}

/** A handler of Node alone, and what the middleware gave to `next`. */
function nodeWith (page, options) {
  const middleware = sessile({ url: 'memory:', ...options })
  const handler = (req, res) => middleware(req, res, (error) => {
    if (error) {
      handler.failures.push(error)
      res.statusCode = 500
      return res.end('failed')
    }
    change(req, res, () => page(req, res))
  })
  return Object.assign(handler, { failures: [] })
}

/** Saves as over a slow network, long after Express has handled an error. */
function slowSaves (context) {
  const save = Held.prototype.save
  context.mock.method(Held.prototype, 'save', async function () {
    await sleep(20)
    return save.call(this)
  })
}

/** All bytes that a connection brings for one request, and then for a second one. */
async function bytes (port, path = '/', method = 'GET') {
  const socket = net.connect(port, '127.0.0.1').setEncoding('latin1')
  const head = (more) => `${method} ${path} HTTP/1.1\r\nHost: a\r\n${more}\r\n`
  socket.write(head('') + head('Connection: close\r\n'))
  return (await socket.toArray()).join('')
}

/** The codes that calls throw. */
function thrown (calls) {
  return calls.map((call) => {
    try {
      call()
    } catch (error) {
      return error.code
    }
    return undefined
  })
}

// The head of a response was open until its save had ended: a second answer of a handler sent its
// body or its status with the length of the first, and the rest of a body was the next response.
test('a second answer changes nothing of the first', async (context) => {
  const secret = 'a secret page, which is much longer'
  const pages = {
    'two answers': [403, 'no', (req, res) => {
      res.status(403).send('no')
      res.send(secret)
    }],
    'a throw': [200, 'ok done', (req, res) => {
      res.send('ok done')
      throw new Error('a defect')
    }],
    'a throw after a long answer': [200, 'undefined is no name', (req, res) => {
      res.send('undefined is no name')
      throw new Error('a defect')
    }],
    'a rejection': [200, 'ok done', async (req, res) => {
      res.send('ok done')
      throw new Error('a defect')
    }],
    'a later microtask': [200, 'ok', async (req, res) => {
      res.send('ok')
      await undefined
      res.status(500).send(secret)
    }],
    'a redirect': [302, 'Found. Redirecting to /log-in', (req, res) => {
      res.redirect('/log-in')
      res.send(secret)
    }],
    'the handler of a missing page': [200, '{"hello":"world"}', (req, res, next) => {
      res.json({ hello: 'world' })
      next()
    }],
    'a time that is over': [200, 'fine', (req, res) => {
      res.send('fine')
      if (!res.headersSent) res.status(504).send('too late')
    }],
    'a status': [200, 'fine', (req, res) => {
      res.send('fine')
      res.statusCode = 504
      res.statusMessage = 'Too late'
    }],
    'a stream': [200, 'ab', (req, res) => {
      res.write('a')
      res.end('b')
      throw new Error('a defect')
    }]
  }
  for (const slow of [false, true]) {
    if (slow) slowSaves(context)
    for (const [name, [status, body, page]] of Object.entries(pages)) {
      await context.test(slow ? `${name}, slow` : name, async (context) => {
        const visitor = await visit(context, expressWith(page))
        const got = await visitor.get('/')
        assert.deepEqual([got.status, got.body], [status, body])
        assert.match(got.line, /^sid=/)
        const length = got.headers['content-length'] ?? String(body.length)
        assert.equal(length, String(body.length))
        const [, first, ...others] = (await bytes(visitor.port)).split('HTTP/1.1 ')
        assert(first.startsWith(`${status} ${http.STATUS_CODES[status]}\r\n`), first)
        assert(!first.includes('secret'), first)
        others.forEach((other) => assert(other.startsWith(`${status} `), other))
      })
    }
  }
})

test('an ended response is as Node itself leaves one', async (context) => {
  const seen = {}
  const page = (req, res) => {
    res.on('error', (error) => { seen.error = error.code })
    res.setHeader('X-Kind', 'first')
    const written = (error) => { seen.written = error.code }
    // Of versions of Node some call it with an error, and others when the response has finished.
    const waiting = () => { seen.waiting = true }
    res.end('one')
    seen.write = res.write('two', written)
    seen.end = res.end(waiting) === res
    res.end('three')
    res.flushHeaders()
    seen.thrown = thrown([
      () => res.setHeader('X-Kind', 'second'),
      () => res.removeHeader('X-Kind'),
      () => res.appendHeader?.('X-Kind', 'second') ?? res.setHeader('X-Kind', 'second'),
      () => res.writeHead(500, { 'Set-Cookie': 'a=b' })
    ])
    seen.sent = [res.headersSent, res.writableEnded, res.writableFinished]
  }
  const visitor = await visit(context, nodeWith(page))
  const { status, headers, body, line } = await visitor.get('/')
  assert.deepEqual([status, headers['x-kind'], body], [200, 'first', 'one'])
  assert.match(line, /^sid=/)
  assert.deepEqual(seen, {
    write: false,
    end: true,
    thrown: Array(4).fill('ERR_HTTP_HEADERS_SENT'),
    sent: [true, true, false],
    written: 'ERR_STREAM_WRITE_AFTER_END',
    error: 'ERR_STREAM_WRITE_AFTER_END',
    waiting: true
  })
})

test('a second answer to which nobody listens does not end the process', async (context) => {
  const told = []
  const page = (req, res) => {
    res.end('one')
    res.write('two', (error) => told.push(error.message))
    res.end('three', (error) => told.push(error.message))
  }
  const visitor = await visit(context, nodeWith(page))
  assert.equal((await visitor.get('/')).body, 'one')
  assert.equal((await visitor.get('/')).body, 'one')
  assert.deepEqual(told, Array(4).fill('write after end'))
})

test('a write after the end of a stream is in no body', async (context) => {
  const page = (req, res) => {
    res.on('error', () => {})
    if (req.url !== '/flushed') res.writeHead(201, { 'Content-Length': 6 })
    else res.flushHeaders()
    res.write('one')
    res.end('two')
    res.write('HTTP/1.1 200 OK\r\n\r\n')
  }
  const visitor = await visit(context, nodeWith(page))
  assert.equal((await visitor.get('/')).body, 'onetwo')
  assert.equal((await visitor.get('/flushed')).body, 'onetwo')
  for (const path of ['/', '/flushed']) {
    assert.doesNotMatch(await bytes(visitor.port, path), /200 OK\r\n\r\n/)
  }
})

test('what a middleware before writes late arrives, and nothing after the end', async (context) => {
  // As `compression` does. The session is stored after the late write, which sends the head.
  const outer = (req, res, next) => {
    const { write, end } = res
    let ended = false
    res.write = (chunk) => setImmediate(() => write.call(res, chunk.toUpperCase()))
    res.end = (chunk) => {
      if (ended) return false
      ended = true
      return setImmediate(() => end.call(res, chunk.toUpperCase()))
    }
    next()
  }
  const inner = nodeWith((req, res) => {
    res.on('error', () => {})
    res.statusCode = 201
    res.write('a')
    res.end('b')
    res.statusCode = 500
    res.write('c')
    res.end('d')
  })
  slowSaves(context)
  const visitor = await visit(context, (req, res) => outer(req, res, () => inner(req, res)))
  const { status, body, line } = await visitor.get('/')
  assert.deepEqual([status, body], [201, 'AB'])
  assert.match(line, /^sid=/)
})

test('a stream that is piped finishes, and all of it arrives', async (context) => {
  const seen = []
  const large = Array.from({ length: 200 }, (_, at) => String(at % 10).repeat(10_000))
  const page = async (req, res) => {
    res.on('finish', () => seen.push('finish')).on('close', () => seen.push('close'))
    if (req.url === '/pipe') return Readable.from(large).pipe(res)
    await pipeline(Readable.from(large), res)
    seen.push('pipeline')
  }
  const visitor = await visit(context, nodeWith(page))
  assert.equal((await visitor.get('/pipe')).body, large.join(''))
  assert.deepEqual(seen.splice(0), ['finish', 'close'])
  assert.equal((await visitor.get('/pipeline')).body, large.join(''))
  assert.deepEqual(seen.sort(), ['close', 'finish', 'pipeline'])
})

test('a client that leaves while a response waits is no finished response', async (context) => {
  let [client, left, outcome] = []
  const closed = new Promise((resolve) => { left = resolve })
  const save = Held.prototype.save
  context.mock.method(Held.prototype, 'save', async function () {
    client.destroy()
    await closed
    return save.call(this)
  })
  const visitor = await visit(context, nodeWith((req, res) => {
    outcome = pipeline(Readable.from(['a']), res)
    res.socket.once('close', left)
  }))
  await assert.rejects(visitor.get('/', { early: (request) => { client = request } }))
  await closed
  await assert.rejects(outcome, { code: 'ERR_STREAM_PREMATURE_CLOSE' })
})

test('a response without a body is one, also with a second answer', async (context) => {
  const page = (req, res) => {
    if (req.query.old) return res.status(304).end()
    res.send('page')
    res.send('another page')
  }
  const visitor = await visit(context, expressWith(page))
  const head = await bytes(visitor.port, '/', 'HEAD')
  assert.equal(head.match(/HTTP\/1.1 200 OK/g).length, 2)
  assert.equal(head.match(/Content-Length: 4\r\n/g).length, 2)
  assert(!head.includes('page'), head)
  const { status, body } = await visitor.get('/?old=1')
  assert.deepEqual([status, body], [304, ''])
})

// The length of the page that was not sent stayed, and cut the error page.
test('a save that fails is one whole error page, also after a second answer', async (context) => {
  const page = (req, res) => {
    req.session.large = 'x'.repeat(2000)
    res.setHeader('Content-Length', 2)
    res.end('ok')
    res.statusCode = 204
  }
  const app = nodeWith(page, { payloadBytesMax: 1000 })
  const visitor = await visit(context, app)
  const { status, body, line } = await visitor.get('/')
  assert.deepEqual([status, body, line], [500, 'failed', undefined])
  assert.deepEqual(app.failures.map(({ code }) => code), ['too-large'])
})

// It was a rejection that nothing handled, which ends the process.
test('a response that Node refuses to send is an error', async (context) => {
  const page = (req, res) => {
    if (req.url === '/status') res.statusCode = 99
    res.end(req.url === '/status' ? 'a status' : 5)
  }
  const app = nodeWith(page)
  const visitor = await visit(context, app)
  assert.equal((await visitor.get('/status')).body, 'failed')
  assert.equal((await visitor.get('/number')).body, 'failed')
  const codes = app.failures.map(({ code }) => code)
  assert.deepEqual(codes, ['ERR_HTTP_INVALID_STATUS_CODE', 'ERR_INVALID_ARG_TYPE'])
})
