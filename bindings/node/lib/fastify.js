// A plugin for Fastify: the middleware, saved when Fastify sends the response.
'use strict'

const { sessile } = require('./middleware')

/** `options` are those of the middleware. */
function plugin (fastify, options, done) {
  const middleware = sessile(options)
  fastify.decorateRequest('session', { getter () { return this.raw.session } })
  fastify.decorateRequest('openSession', function () { return this.raw.openSession() })
  fastify.addHook('onRequest', (request, reply, next) => {
    // As Fastify sees it, behind the proxies that it trusts.
    request.raw.secure = request.protocol === 'https'
    middleware(request.raw, reply.raw, next)
  })
  // A stream is sent while the session is held. Anything else is saved first, so that a failure
  // is an error of Fastify.
  fastify.addHook('onSend', async (request, reply, payload) => {
    if (typeof payload?.pipe !== 'function') await request.raw.finishSession?.()
  })
  done()
}

// Not encapsulated, as fastify-plugin does it.
plugin[Symbol.for('skip-override')] = true
plugin[Symbol.for('fastify.display-name')] = 'sessile'

module.exports = plugin
module.exports.sessile = plugin
module.exports.default = plugin
