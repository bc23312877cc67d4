import express from 'express'
import { open, sessile, LockTimeoutError } from 'sessile/express'
import plugin from 'sessile/fastify'
import fastify from 'fastify'

const app = express()
app.use(sessile({ url: 'memory:', mode: 'merge', cookie: { maxAge: 1000, secure: 'auto' } }))
app.get('/', async (req, res) => {
  req.session.n = 1
  await req.session.regenerate({ keep: true })
  req.session.destroy((error) => res.send(String(error)))
})
fastify().register(plugin, { url: 'memory:' })

export async function count (id?: string): Promise<number> {
  const session = await open('memory:', { lockWaitMs: 10 }).begin(id)
  try {
    session.data.n = (session.data.n ?? 0) + 1
    await session.commit()
    return session.data.n
  } catch (error) {
    if (error instanceof LockTimeoutError) return error.waitedMs
    throw error
  }
}

// @ts-expect-error: there is no such mode.
sessile({ url: 'memory:', mode: 'both' })
