// The products, and the pages as functions of what they show.
'use strict'

const PRODUCTS = {
  anchor: ['Anchor', 'Four flukes. Holds a boat of up to nine metres, or an argument.', 8900],
  doorstop: ['Doorstop', 'A wedge of oak. Has never been seen to move.', 1250],
  paperweight: ['Paperweight', 'A dome of glass for papers that would like to leave.', 2400],
  pan: ['Cast-iron pan', 'Once it is on the stove you will not want to lift it.', 4900],
  bonsai: ['Bonsai', 'Rooted since 1998. Please water on Fridays.', 12000],
  bollard: ['Bollard', 'For your own quay. Delivery by crane.', 34900]
}

const ESCAPES = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }
const escaped = (text) => String(text).replace(/[&<>"']/g, (sign) => ESCAPES[sign])
const euros = (cents) =>
  '&euro; ' + (cents / 100).toLocaleString('en', { minimumFractionDigits: 2 })
const sum = (numbers) => numbers.reduce((a, b) => a + b, 0)

/** Products and pieces. An old session may have products that are gone. */
const cartOf = ({ cart = {} }) =>
  Object.entries(cart).filter(([product]) => Object.hasOwn(PRODUCTS, product))
const picture = (product) =>
  `<svg class="picture" aria-hidden="true"><use href="/pictures.svg#${product}"/></svg>`
/** The start of a form. Without a session it has no token, since a token would need a session. */
const form = ({ token = '' }, action, attributes = '') =>
  `<form method="post" action="${action}" ${attributes}>` +
  `<input type="hidden" name="token" value="${escaped(token)}">`

const pages = {
  layout: ({ session, id, status }, content) => `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Staying Put</title>
<link rel="icon" href="/pictures.svg">
<link rel="stylesheet" href="/style.css">
<header>
  <a class="brand" href="/">Staying Put</a>
  <nav>
    <a href="/">Shop</a>
    <a href="/cart">Cart${badge(session)}</a>
    <a href="/handler">Behind the counter</a>
    ${session.name === undefined
      ? '<a href="/login">Log in</a>'
      : `${form(session, '/log-out')}<span>Hello, ${escaped(session.name)}</span>
        <button class="quiet">Log out</button></form>`}
  </nav>
</header>
<main>
${content}
</main>
<footer>
${footer(session, id, status)}
</footer>
`,

  products: ({ session }) => `<h1>Things that stay where you put them</h1>
<p class="lead">Heavy goods for people who have lost enough already. So are their carts.</p>
<ul class="products">
${Object.entries(PRODUCTS).map(([product, [name, text, cents]]) => `  <li>
    ${picture(product)}
    <h2>${name}</h2>
    <p>${text}</p>
    ${form(session, '/add', 'class="buy"')}
      <b>${euros(cents)}</b>
      <button name="product" value="${product}">Add to cart</button>
    </form>
  </li>`).join('\n')}
</ul>`,

  cart: ({ session }) => {
    const cart = cartOf(session)
    const begin = '<h1>Your cart</h1>\n'
    if (cart.length === 0) {
      return `${begin}<p class="lead">It is empty. <a href="/">Find something that lasts.</a></p>`
    }
    const rows = cart.map(([product, pieces]) => `  <tr>
    <td>${picture(product)}</td>
    <th scope="row">${PRODUCTS[product][0]}</th>
    <td>${escaped(pieces)} &times; ${euros(PRODUCTS[product][2])}</td>
    <td>${euros(pieces * PRODUCTS[product][2])}</td>
    <td>${form(session, '/remove')}
      <button class="quiet" name="product" value="${product}">Remove</button></form></td>
  </tr>`)
    const total = euros(sum(cart.map(([product, pieces]) => pieces * PRODUCTS[product][2])))
    const logIn = session.name === undefined
      ? '<p><a href="/login">Log in</a>: the cart comes with you, to a session with a new id.</p>'
      : ''
    return `${begin}<table>
${rows.join('\n')}
  <tr class="total">
    <td></td><th scope="row">Total</th><td></td><td>${total}</td><td></td>
  </tr>
</table>
${logIn}`
  },

  login: ({ session }) => `<h1>Log in</h1>
<p class="lead">Any name will do; there is no password. Your session gets a new id, and the old one
  is worth nothing from then on.</p>
${form(session, '/log-in', 'class="card"')}
  <label>Name <input name="name" required maxlength="40" autocomplete="username" autofocus></label>
  <button>Log in</button>
</form>`,

  handler: ({ session, counters, store }) => `<h1>Behind the counter</h1>
<p class="lead">The sessions of this shop are kept by <code>sessile</code>, on the store
  <code>${escaped(store)}</code>.</p>

<section class="card">
  <h2>A session begins when there is something to keep</h2>
  ${Object.keys(session).length === 0
    ? `<p>You have no session and no cookie: nothing was put into it. Add something to your cart,
    and look again.</p>`
    : `<p>You have a session, because there is something in it:
    <code>${escaped(Object.keys(session).join(', '))}</code>.</p>`}
</section>

<section class="card">
  <h2>Eight at once, and none is lost</h2>
  <p>Each request reads your counter, works for 20 ms, and stores the counter plus one.
    A session belongs to one request at a time, so all eight count; without a lock most would have
    stored the same number.</p>
  ${form(session, '/count', 'id="count"')}<button>Count 8 times at once</button>
    Your counter: <b id="counter">${escaped(session.count ?? 0)}</b></form>
  <p id="outcome" role="status"></p>
  <script src="/count.js"></script>
</section>

<section class="card">
  <h2>What could not be saved or locked</h2>
  <p><code>counters()</code> of worker ${process.pid}. In a shop that is well all are 0.</p>
  <dl>
${Object.entries(counters).map(([name, value]) =>
  `    <dt><code>${name}</code></dt><dd>${value}</dd>`).join('\n')}
  </dl>
</section>`,

  error: ({ status, told }) => `<h1>${status}</h1>
<p class="lead">${escaped(told)}</p>
<p><a href="/">Back to the shop</a></p>`
}

function badge (session) {
  const pieces = sum(cartOf(session).map(([, pieces]) => pieces))
  return pieces > 0 ? ` <b class="badge">${pieces}</b>` : ''
}

function footer (session, id, status) {
  if (status >= 500) return '  <b>Your session is not at hand.</b>'
  if (Object.keys(session).length === 0) {
    return `  <b>No session.</b> You have done nothing that must be remembered: no cookie was sent, and
  nothing was stored.`
  }
  return `  <b>Session ${escaped(id.slice(0, 6))}&hellip;</b>
  of ${JSON.stringify(session).length} bytes, in the hands of worker ${process.pid}.`
}

module.exports = { PRODUCTS, pages }
