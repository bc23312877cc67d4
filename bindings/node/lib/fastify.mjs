// The same for ES modules.
import plugin from './fastify.js'

export const sessile = plugin
export default plugin
