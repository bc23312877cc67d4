// The shop of examples/php, on Express: the same pages, the same pictures.
//
// Keys of the session: cart (product -> pieces), name, count, token.
'use strict'

const { randomBytes, timingSafeEqual } = require('node:crypto')
const path = require('node:path')
const { setTimeout: sleep } = require('node:timers/promises')
const express = require('express')
const { sessile } = require('sessile')
const { PRODUCTS, pages } = require('./pages')

const PUBLIC = path.join(__dirname, '../php/public')
const PIECES_MAX = 99
const NAME_LENGTH_MAX = 80

function token () {
  return randomBytes(16).toString('hex')
}

/** A visitor with a session sends its token. Without a session another site could only log the
 * visitor in as somebody else: the browser's Origin must match. */
function isOwnForm (req) {
  const { token } = req.session
  if (token !== undefined) {
    const [ours, theirs] = [token, String(req.body?.token ?? '')].map((text) => Buffer.from(text))
    return ours.length === theirs.length && timingSafeEqual(ours, theirs)
  }
  return [`http://${req.get('host')}`, `https://${req.get('host')}`].includes(req.get('origin'))
}

const actions = {
  '/add' ({ body, session }) {
    session.cart ??= {}
    if (Object.hasOwn(PRODUCTS, body.product)) {
      const pieces = session.cart[body.product] ?? 0
      session.cart[body.product] = Math.min(PIECES_MAX, pieces + 1)
    }
    return '/'
  },
  '/remove' ({ body, session }) {
    delete session.cart?.[String(body.product)]
    return '/cart'
  },
  /** Without a password: authentication is not part of this example. */
  async '/log-in' (req) {
    const name = String(req.body.name ?? '').trim()
    if (name === '' || name.length > NAME_LENGTH_MAX) return '/login'
    const { cart, count } = req.session
    // A new id. The old one, which an attacker may have planted, ends at once.
    await req.session.regenerate()
    Object.assign(req.session, { cart, count, name, token: token() })
    return '/'
  },
  /** Final: a concurrent request does not bring the session back. */
  async '/log-out' (req) {
    await req.session.destroy()
    return '/'
  },
  async '/count' ({ session }) {
    const count = session.count ?? 0
    // Simulates work. Without the lock, concurrent requests would read the same number.
    await sleep(20)
    session.count = count + 1
    return '/handler'
  }
}

/** The application, with its sessions in the store of a URL. */
function shop (url) {
  const app = express().disable('x-powered-by')
  const policy = "default-src 'self'; form-action 'self'; frame-ancestors 'none'"
  app.use((req, res, next) => {
    res.set('Content-Security-Policy', policy)
    next()
  })
  app.use(express.static(PUBLIC, { index: false, extensions: false }))
  const sessions = sessile({ url, name: 'sid' })
  app.use(sessions)
  // The script sends its forms in parts.
  app.use(express.urlencoded({ extended: false }), express.text({ type: 'multipart/form-data' }))

  const show = (req, res, page, status, told) => {
    const { session, sessionID } = req
    const counters = sessions.sessions.counters()
    const view = { session, id: sessionID, status, told, counters, store: url.split(':')[0] }
    res.status(status).type('html').send(pages.layout(view, pages[page](view)))
  }
  app.post(Object.keys(actions), async (req, res) => {
    if (typeof req.body === 'string') req.body = partsOf(req.body)
    req.body ??= {}
    if (!isOwnForm(req)) {
      const told = 'This form did not come from this shop, or it is older than your session.'
      return show(req, res, 'error', 403, told)
    }
    if (req.path !== '/log-out') req.session.token ??= token()
    const next = await actions[req.path](req)
    if (req.accepts(['html', 'json']) === 'json') {
      const { count = 0, token } = req.session
      res.json({ count, token, worker: process.pid })
    } else {
      res.redirect(303, next)
    }
  })
  const shown = { '/': 'products', '/cart': 'cart', '/login': 'login', '/handler': 'handler' }
  app.get(Object.keys(shown), (req, res) => show(req, res, shown[req.path], 200))
  app.use((req, res) => show(req, res, 'error', 404, 'There is no such page.'))
  app.use((error, req, res, next) => {
    if (res.headersSent) return next(error)
    console.error(error)
    const view = { session: {}, status: error.status ?? 500, told: 'Please try again in a moment.' }
    res.status(view.status).type('html').send(pages.layout(view, pages.error(view)))
  })
  return app
}

/** The fields of a form that is sent in parts. */
function partsOf (body) {
  const fields = body.matchAll(/name="(\w+)"\r\n\r\n([^\r]*)\r\n/g)
  return Object.fromEntries([...fields].map(([, name, value]) => [name, value]))
}

module.exports = { shop }
