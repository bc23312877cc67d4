// Requests of one visitor, whose browser keeps cookies.
'use strict'

const http = require('node:http')

class Visitor {
  constructor (server) {
    this.port = server.address().port
    this.cookie = undefined
  }

  /** The status, the headers and the body of a page. `early` gets the request. */
  get (path, { headers = {}, early = () => {} } = {}) {
    return new Promise((resolve, reject) => {
      const sent = { ...headers, ...(this.cookie && { cookie: this.cookie }) }
      const options = { port: this.port, path, headers: sent, agent: false }
      const request = http.get(options, (response) => {
        let body = ''
        response.on('data', (data) => { body += data }).on('error', reject).on('end', () => {
          const [line] = response.headers['set-cookie'] ?? []
          if (line) this.cookie = /=;/.test(line) ? undefined : line.split(';')[0]
          resolve({ status: response.statusCode, headers: response.headers, body, line })
        })
      })
      request.on('error', reject)
      early(request)
    })
  }
}

/** Serves an application until the test ends, and returns a visitor. */
async function visit (context, application) {
  const server = http.createServer(application)
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  context.after(() => {
    server.closeAllConnections()
    server.close()
  })
  return new Visitor(server)
}

module.exports = { Visitor, visit }
