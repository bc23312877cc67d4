// The cookie of a session.
'use strict'

/** `maxAge` is in milliseconds; without it the cookie lives until the browser is closed. */
class Cookie {
  constructor (options = {}) {
    const { name = 'sid', path = '/', domain, maxAge, partitioned = false } = options
    const { secure = 'auto', httpOnly = true, sameSite = 'lax' } = options
    if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name)) {
      throw new TypeError('the name of a cookie has letters, digits, - and _')
    }
    Object.assign(this, { name, maxAge, secure })
    this.end = `; Path=${path}`
    if (domain) this.end += `; Domain=${domain}`
    if (httpOnly) this.end += '; HttpOnly'
    if (sameSite) this.end += `; SameSite=${sameSite === true ? 'Strict' : sameSite}`
    if (partitioned) this.end += '; Partitioned'
  }

  /** The id that a browser sends. */
  read (header = '') {
    for (const pair of header.split(';')) {
      const at = pair.indexOf('=')
      if (at > 0 && pair.slice(0, at).trim() === this.name) {
        return pair.slice(at + 1).trim().replace(/^"(.*)"$/, '$1') || undefined
      }
    }
  }

  /** A `Set-Cookie` header; without an id it removes the cookie. */
  write (id, https, maxAge = this.maxAge) {
    let line = `${this.name}=${id ?? ''}${this.end}`
    if (id === undefined) maxAge = 0
    if (maxAge !== undefined && maxAge !== null) {
      line += `; Max-Age=${Math.floor(maxAge / 1000)}`
      line += `; Expires=${new Date(maxAge && Date.now() + maxAge).toUTCString()}`
    }
    return (this.secure === 'auto' ? https : this.secure) ? `${line}; Secure` : line
  }
}

module.exports = { Cookie }
