/** A plugin for Fastify: the middleware, saved when Fastify sends the response. */

import type { FastifyPluginCallback } from 'fastify'
import type { MiddlewareOptions, Session, SessionData } from './index'

declare const plugin: FastifyPluginCallback<MiddlewareOptions>
export { plugin as sessile }
export default plugin

declare module 'fastify' {
  interface FastifyRequest {
    session: Session & SessionData
    openSession (): Promise<Session & SessionData>
  }
}
