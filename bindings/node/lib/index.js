// Sessile for Node: the sessions of web applications. The guide is docs/node.md of the project.
'use strict'

const { Held, Sessions, newId } = require('./sessions')
const { sessile, Session } = require('./middleware')
const { Cookie } = require('./cookies')
const { raised, ...errors } = require('./errors')

/** Opens the store of a URL. */
function open (url, options) {
  return new Sessions(url, options)
}

module.exports = { sessile, open, Sessions, Held, Session, Cookie, newId, ...errors }
