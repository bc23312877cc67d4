// Visits the open shop as a browser.
'use strict'

const assert = require('node:assert')
const { test } = require('node:test')
const { shop } = require('../shop')

async function visit (context) {
  const server = shop('memory:').listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  context.after(() => server.close())
  const origin = `http://127.0.0.1:${server.address().port}`
  let cookie
  const ask = async (path, fields, headers = {}) => {
    const page = await fetch(origin + path, {
      method: fields ? 'POST' : 'GET',
      redirect: 'manual',
      headers: { origin, connection: 'close', ...(cookie && { cookie }), ...headers },
      body: fields && (fields instanceof FormData ? fields : new URLSearchParams(fields))
    })
    const [line] = page.headers.getSetCookie()
    if (line) cookie = line.startsWith('sid=;') ? undefined : line.split(';')[0]
    const body = await page.text()
    return { status: page.status, body, token: /name="token" value="(\w*)"/.exec(body)?.[1] }
  }
  return Object.assign(ask, { cookie: () => cookie })
}

test('a visitor who leaves nothing has no session, and one who buys has', async (context) => {
  const ask = await visit(context)
  assert.match((await ask('/')).body, /No session/)
  assert.equal(ask.cookie(), undefined)
  assert.equal((await ask('/add', { product: 'anchor' })).status, 303)
  assert.match(ask.cookie(), /^sid=/)
  assert.match((await ask('/cart')).body, /Anchor/)
})

test('a form of another site is refused', async (context) => {
  const ask = await visit(context)
  const foreign = { origin: 'http://evil.example' }
  assert.equal((await ask('/add', { product: 'pan' }, foreign)).status, 403)
  await ask('/add', { product: 'pan' })
  assert.equal((await ask('/add', { product: 'pan', token: 'guessed' })).status, 403)
})

test('a log-in keeps the cart under a new id, and a log-out ends it', async (context) => {
  const ask = await visit(context)
  await ask('/add', { product: 'bonsai' })
  const before = ask.cookie()
  const { token } = await ask('/login')
  await ask('/log-in', { name: '<b>Ada</b>', token })
  assert.notEqual(ask.cookie(), before)
  const cart = await ask('/cart')
  assert.match(cart.body, /Bonsai/)
  assert.match(cart.body, /Hello, &lt;b&gt;Ada/)
  await ask('/log-out', { token: cart.token })
  assert.equal(ask.cookie(), undefined)
  assert.match((await ask('/cart')).body, /It is empty/)
})

test('eight at once count eight', async (context) => {
  const ask = await visit(context)
  const count = async (token) => {
    const form = new FormData()
    form.set('token', token)
    return JSON.parse((await ask('/count', form, { accept: 'application/json' })).body)
  }
  const first = await count('')
  const answers = await Promise.all(Array.from({ length: 8 }, () => count(first.token)))
  assert.equal(Math.max(...answers.map(({ count }) => count)), 9)
})
