/** `import 'sessile/express'` gives the requests of Express their session. */

import type { WithSession } from './index'

export * from './index'
export { default } from './index'

declare global {
  namespace Express {
    interface Request extends WithSession {}
  }
}
