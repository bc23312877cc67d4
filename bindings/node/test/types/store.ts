import express from 'express'
import session from 'express-session'
import { SessileStore } from 'sessile/express-session'

const store = new SessileStore({
  url: 'memory:',
  onConflict: (base, mine, theirs) => ({ ...base, ...theirs, ...mine })
})
express().use(session({ store, secret: 'a', resave: false, saveUninitialized: false }))
