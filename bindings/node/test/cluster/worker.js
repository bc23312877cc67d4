// One worker: counts the requests of a session.
'use strict'

const express = require('express')
const { sessile } = require('../..')

const app = express()
app.use(sessile({ url: process.argv[2] }))
app.get('/', async (req, res) => {
  const n = req.session.n ?? 0
  await new Promise(setImmediate)
  req.session.n = n + 1
  res.set('x-worker', process.pid).send(String(n + 1))
})
app.listen(0, '127.0.0.1')
