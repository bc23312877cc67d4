// The middleware under Express and under Node's own server.
'use strict'

const assert = require('node:assert')
const { test } = require('node:test')
const express = require('express')
const passport = require('passport')
const { sessile } = require('..')
const { native } = require('../lib/native')
const stores = require('./stores')
const { visit } = require('./visitor')

/** An application with some pages, and what its error handler has got. */
function application (options) {
  const app = express()
  app.failures = []
  app.use(sessile({ url: stores.engine(), ...options }))
  app.get('/count', (req, res) => {
    req.session.n = (req.session.n ?? 0) + 1
    res.send(String(req.session.n))
  })
  app.get('/see', (req, res) => res.json(req.session))
  app.get('/plain', (req, res) => res.send('plain'))
  app.get('/log-in', async (req, res) => {
    await req.session.regenerate()
    req.session.user = 1
    res.send('in')
  })
  app.get('/log-out', async (req, res) => {
    await req.session.destroy()
    res.send('out')
  })
  return app
}

function withErrors (app) {
  app.use((error, req, res, next) => {
    app.failures.push(error)
    if (res.headersSent) return next(error)
    res.status(error.status ?? 500).send(error.code ?? 'failed')
  })
  return app
}

async function until (holds) {
  const end = Date.now() + 10_000
  while (!(await holds())) {
    assert(Date.now() < end, 'it does not come')
    await new Promise(setImmediate)
  }
}

test('a session is kept by a cookie, which only data bring', async (context) => {
  const visitor = await visit(context, application())
  assert.equal((await visitor.get('/plain')).line, undefined)
  const first = await visitor.get('/count')
  assert.equal(first.body, '1')
  assert.match(first.line, /^sid=[\w-]{32}; Path=\/; HttpOnly; SameSite=lax$/)
  const second = await visitor.get('/count')
  assert.equal(second.body, '2')
  assert.equal(second.line, undefined)
  assert.equal((await visitor.get('/see')).body, '{"n":2}')
})

test('a cookie has what it is told to have', async (context) => {
  const cookie = { maxAge: 60_000, secure: true, sameSite: 'none', httpOnly: false, path: '/' }
  const options = { name: 'shop', rolling: true, cookie: { ...cookie, domain: 'a.example' } }
  const app = application(options)
  const visitor = await visit(context, app)
  const wanted = new RegExp('^shop=.*; Path=/; Domain=a.example; SameSite=none; Max-Age=60; ' +
    'Expires=.* GMT; Secure$')
  assert.match((await visitor.get('/count')).line, wanted)
  assert.match((await visitor.get('/plain')).line, wanted)
})

test('secure follows the proxy that Express trusts', async (context) => {
  const app = express().set('trust proxy', true)
  app.use(application())
  const visitor = await visit(context, app)
  const { line } = await visitor.get('/count', { headers: { 'x-forwarded-proto': 'https' } })
  assert.match(line, /; Secure$/)
})

test('a log-in gets a new id, and the old one shows nothing', async (context) => {
  const visitor = await visit(context, application())
  await visitor.get('/count')
  const old = visitor.cookie
  await visitor.get('/log-in')
  assert.notEqual(visitor.cookie, old)
  assert.equal((await visitor.get('/see')).body, '{"user":1}')
  visitor.cookie = old
  assert.equal((await visitor.get('/see')).body, '{}')
})

test('a log-out ends the session and removes the cookie', async (context) => {
  const visitor = await visit(context, application())
  await visitor.get('/count')
  const old = visitor.cookie
  assert.match((await visitor.get('/log-out')).line, /^sid=; .*Max-Age=0; Expires=Thu, 01 Jan 1970/)
  visitor.cookie = old
  assert.equal((await visitor.get('/count')).body, '1')
  assert.notEqual(visitor.cookie, old)
})

test('an id that the visitor made up is not taken', async (context) => {
  const visitor = await visit(context, application())
  for (const id of ['planted', '../../etc', 'a%00b', '']) {
    visitor.cookie = `sid=${id}`
    await visitor.get('/count')
    assert.notEqual(visitor.cookie, `sid=${id}`)
  }
})

test('a request holds its session to its end, also over waits of its handler', async (context) => {
  const app = application()
  app.get('/slow', async (req, res) => {
    const n = req.session.n ?? 0
    await new Promise((resolve) => setTimeout(resolve, 5))
    req.session.n = n + 1
    res.send(String(n + 1))
  })
  const visitor = await visit(context, app)
  await visitor.get('/count')
  await Promise.all(Array.from({ length: 20 }, () => visitor.get('/slow')))
  assert.equal((await visitor.get('/see')).body, '{"n":21}')
})

test('with merge requests run side by side and both changes stay', async (context) => {
  const app = application({ mode: 'merge' })
  let arrived = 0
  let meet
  const both = new Promise((resolve) => { meet = resolve })
  app.get('/put/:name', async (req, res) => {
    req.session.cart ??= {}
    req.session.cart[req.params.name] = 1
    if (++arrived === 2) meet()
    await both
    res.send('put')
  })
  const visitor = await visit(context, app)
  await visitor.get('/count')
  await Promise.all([visitor.get('/put/book'), visitor.get('/put/pen')])
  const { cart } = JSON.parse((await visitor.get('/see')).body)
  assert.deepEqual(Object.keys(cart).sort(), ['book', 'pen'])
})

test('a handler that throws gives the session back', async (context) => {
  const app = application({ lockWaitMs: 1000 })
  app.get('/throw', () => { throw new Error('a defect') })
  app.get('/reject', async () => { throw new Error('a defect') })
  const visitor = await visit(context, withErrors(app))
  await visitor.get('/count')
  assert.equal((await visitor.get('/throw')).status, 500)
  assert.equal((await visitor.get('/reject')).status, 500)
  assert.equal((await visitor.get('/count')).body, '2')
})

test('a client that leaves gives the session back, and a late end is saved', async (context) => {
  const app = application({ lockWaitMs: 5000 })
  let [client, finish] = []
  const early = (request) => { client = request }
  app.get('/never', () => client.destroy())
  app.get('/late', (req, res) => {
    req.session.late = true
    finish = () => res.send('late')
    client.destroy()
  })
  const visitor = await visit(context, app)
  await visitor.get('/count')
  for (const page of ['/never', '/late']) {
    await assert.rejects(visitor.get(page, { early }))
    assert.equal((await visitor.get('/see')).body, '{"n":1}')
  }
  finish()
  await until(async () => (await visitor.get('/see')).body === '{"n":1,"late":true}')
})

test('a request whose client has left while it waits is not handled', async (context) => {
  const app = application({ lockWaitMs: 5000 })
  let [handled, waiting, closed] = [0, 0, 0]
  app.use('/counted', (req, res) => {
    handled++
    res.send('counted')
  })
  let release
  app.get('/hold', (req, res) => { release = () => res.send('held') })
  const visitor = await visit(context, (req, res) => {
    if (req.url === '/counted') {
      waiting++
      res.once('close', () => closed++)
    }
    app(req, res)
  })
  await visitor.get('/count')
  const opens = context.mock.method(native.Request.prototype, 'open').mock
  const holding = visitor.get('/hold')
  await until(() => release !== undefined)
  const clients = []
  const early = (request) => clients.push(request)
  const left = Array.from({ length: 10 }, () => visitor.get('/counted', { early }).catch(() => {}))
  await until(() => waiting === 10)
  clients.forEach((client) => client.destroy())
  await Promise.all(left)
  await until(() => closed === 10)
  release()
  await holding
  assert.equal((await visitor.get('/count')).body, '2')
  assert.equal(handled, 0)
  const waits = opens.calls.filter(({ arguments: [ticket] }) => ticket < 0)
  assert(waits.length < 3, 'the others leave the line')
})

// Its handler never ended, and the session was held until garbage was collected.
test('a lock that is taken after the client has left is given back at once', async (context) => {
  const app = application({ lazy: true, lockWaitMs: 5000 })
  const took = []
  let client
  const early = (request) => { client = request }
  app.get('/late/:way', async (req, res) => {
    if (req.params.way !== 'open') await req.openSession()
    client.destroy()
    await new Promise((resolve) => res.once('close', resolve))
    if (req.params.way === 'open') await req.openSession()
    if (req.params.way === 'regenerate') await req.session.regenerate({ keep: true })
    took.push(req.session)
  })
  app.get('/open', async (req, res) => res.json(await req.openSession()))
  app.get('/put', async (req, res) => {
    const session = await req.openSession()
    session.n = 1
    res.send('put')
  })
  const visitor = await visit(context, withErrors(app))
  for (const way of ['open', 'regenerate']) {
    await visitor.get('/put')
    await assert.rejects(visitor.get(`/late/${way}`, { early }))
    await until(() => took.length > 0)
    visitor.cookie = `sid=${took.pop().id}`
    assert.equal((await visitor.get('/open')).body, '{"n":1}')
  }
})

test('changes that nothing has stored are no success', async (context) => {
  const lifetimeMs = 500
  const ending = application({ lifetimeMs })
  ending.get('/late', async (req, res) => {
    const begun = Date.now()
    // On a busy machine the session may have ended before.
    if (req.session.n === undefined) return res.send('again')
    if (req.query.change) req.session.n++
    while (Date.now() <= begun + lifetimeMs) await new Promise(setImmediate)
    res.send('late')
  })
  const app = application()
  app.get('/rotate', async (req, res) => {
    await req.session.regenerate({ keep: true })
    res.send('new')
  })
  app.get('/again/:page', async (req, res) => {
    req.session.n = 5
    await req.session.save()
    await visitor.get(`/${req.params.page}`)
    req.session.n = 6
    res.send('saved twice')
  })
  let visitor = await visit(context, withErrors(ending))
  const told = async (page) => {
    const { status, body } = await visitor.get(page)
    return [status, body]
  }
  const toldInTime = async (page) => {
    await visitor.get('/count')
    const answer = await told(page)
    return answer[1] === 'again' ? toldInTime(page) : answer
  }
  assert.deepEqual(await toldInTime('/late?change=1'), [409, 'destroyed'])
  assert.deepEqual(await toldInTime('/late'), [200, 'late'])

  visitor = await visit(context, withErrors(app))
  await visitor.get('/count')
  const old = visitor.cookie
  await visitor.get('/rotate')
  visitor.cookie = old
  assert.deepEqual(await told('/see'), [200, '{"n":1}'])
  assert.deepEqual(await told('/count'), [409, 'destroyed'])

  for (const [page, answer] of [['rotate', [409, 'destroyed']], ['log-out', [200, 'saved twice']]]) {
    visitor.cookie = undefined
    await visitor.get('/count')
    assert.deepEqual(await told(`/again/${page}`), answer)
  }
})

test('a session lives for the time of touch, also after later requests', async (context) => {
  const app = application()
  app.get('/remember', (req, res) => {
    req.session.touch(30 * 86_400_000)
    res.send('for a month')
  })
  const visitor = await visit(context, app)
  await visitor.get('/count')
  for (const page of ['/remember', '/count']) {
    assert.match((await visitor.get(page)).line, /; Max-Age=2592000;/)
  }
  assert.equal((await visitor.get('/see')).body, '{"n":2}')
})

test('a stream holds the session until it ends', async (context) => {
  const app = application()
  app.get('/stream', (req, res) => {
    req.session.begun = true
    res.write('a')
    setTimeout(() => {
      req.session.ended = true
      res.end('b')
    }, 20)
  })
  const visitor = await visit(context, app)
  assert.equal((await visitor.get('/stream')).body, 'ab')
  assert.equal((await visitor.get('/see')).body, '{"begun":true,"ended":true}')
})

test('a new session that begins after the headers is told as an error', async (context) => {
  const app = application()
  app.get('/too-late', (req, res) => {
    res.write('a')
    req.session.n = 1
    res.end('b')
  })
  const visitor = await visit(context, app)
  await assert.rejects(visitor.get('/too-late'))
})

test('a save that fails is an error page and no success', async (context) => {
  const app = application({ payloadBytesMax: 1000 })
  app.get('/large', (req, res) => {
    req.session.large = 'x'.repeat(2000)
    res.send('saved')
  })
  const visitor = await visit(context, withErrors(app))
  const { status, body, line } = await visitor.get('/large')
  assert.deepEqual([status, body, line], [500, 'too-large', undefined])
  assert.equal((await visitor.get('/see')).body, '{}')
})

test('a lock that is not free in time is 503', async (context) => {
  const app = application({ lockWaitMs: 20 })
  app.get('/never', () => {})
  const visitor = await visit(context, withErrors(app))
  await visitor.get('/count')
  visitor.get('/never').catch(() => {})
  await until(async () => (await visitor.get('/see')).status === 503)
  assert.equal(app.failures[0].code, 'lock-timeout')
})

test('a store that is not there is 503', async (context) => {
  const app = application({ url: `redis+unix://${stores.directory()}/none.sock` })
  const visitor = await visit(context, withErrors(app))
  visitor.cookie = `sid=${'a'.repeat(32)}`
  assert.deepEqual((await visitor.get('/see')).status, 503)
})

test('a lazy session is opened by its first use', async (context) => {
  const app = express()
  app.use(sessile({ url: stores.engine(), lazy: true, lockWaitMs: 100 }))
  app.get('/count', async (req, res) => {
    const session = await req.openSession()
    session.n = (session.n ?? 0) + 1
    res.send(String(session.n))
  })
  app.get('/hold', async (req) => { await req.openSession() })
  app.get('/without', (req, res) => res.send('without'))
  app.get('/unopened', (req, res) => res.send(String(req.session.n)))
  const visitor = await visit(context, withErrors(Object.assign(app, { failures: [] })))
  await visitor.get('/count')
  assert.equal((await visitor.get('/unopened')).status, 500)
  visitor.get('/hold').catch(() => {})
  await until(async () => (await visitor.get('/count')).status === 503)
  assert.equal((await visitor.get('/without')).status, 200)
})

test('callbacks work as in express-session, and so does Passport', async (context) => {
  const app = application()
  passport.serializeUser((user, done) => done(null, user.id))
  passport.deserializeUser((id, done) => done(null, { id }))
  app.use(passport.session())
  app.get('/passport', (req, res, next) => {
    req.logIn({ id: 7 }, (error) => (error ? next(error) : res.send('in')))
  })
  app.get('/user', (req, res) => res.json(req.user ?? null))
  app.get('/leave', (req, res, next) => {
    req.logOut((error) => (error ? next(error) : res.send('out')))
  })
  const visitor = await visit(context, withErrors(app))
  await visitor.get('/count')
  const old = visitor.cookie
  assert.equal((await visitor.get('/passport')).body, 'in')
  assert.notEqual(visitor.cookie, old)
  assert.equal((await visitor.get('/user')).body, '{"id":7}')
  assert.equal((await visitor.get('/leave')).body, 'out')
  assert.equal((await visitor.get('/user')).body, 'null')
})

test('data may be named like anything of an object', async (context) => {
  const app = application()
  app.get('/odd', (req, res) => {
    Object.defineProperty(req.session, '__proto__', {
      value: { admin: true }, enumerable: true, configurable: true, writable: true
    })
    req.session.constructor = 1
    res.send('put')
  })
  app.get('/admin', (req, res) => res.json([req.session.admin ?? null, typeof req.session.save]))
  const visitor = await visit(context, app)
  await visitor.get('/odd')
  assert.equal((await visitor.get('/admin')).body, '[null,"function"]')
})

test('cookies of the application stay', async (context) => {
  const visitor = await visit(context, (req, res) => {
    sessile({ url: 'memory:' })(req, res, () => {
      req.session.n = 1
      res.writeHead(200, { 'set-cookie': 'theme=dark' })
      res.end('both')
    })
  })
  const { headers } = await visitor.get('/')
  assert.equal(headers['set-cookie'].length, 2)
})
