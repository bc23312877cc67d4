/** The sessions of web applications. Times are in milliseconds. */

import type { IncomingMessage, ServerResponse } from 'node:http'

/** Where sessions are, and how long they live. */
export interface SessionsOptions {
  /** A session lives for so long after each request. A day, or the `maxAge` of the cookie. */
  idleMs?: number
  /**
   * A session lives for so long until a second request uses it or it has an owner: robots come once.
   */
  firstLifetimeMs?: number
  /** A session ends so long after its creation, whatever its requests do. */
  lifetimeMs?: number
  /**
   * Requests of one session take turns (`exclusive`), or run in parallel and their changes are
   * merged by the keys of the session (`merge`), or run in parallel and a save that would undo the
   * change of another one is a `StaleError` (`detect`).
   */
  mode?: 'exclusive' | 'merge' | 'detect'
  /** What `merge` does if two have changed the same key: the last one stands, and is counted. */
  onConflict?: 'last' | 'fail'
  /** How long a request waits for the lock. 30 seconds. */
  lockWaitMs?: number
  /** How long an old id shows the session as it was, after `regenerate({ keep: true })`. */
  graceMs?: number
  /** The largest session in bytes of JSON. */
  payloadBytesMax?: number
  /** Whether the store gets digests of the ids. The embedded engine always does. */
  hashedIds?: boolean
}

/** The values of a session. Augment it with your own. */
export interface SessionData {
  [name: string]: any
}

/**
 * `stored`; `touched`: only its life is longer now; `nothing` was to be saved. Another request has
 * ended it meanwhile: `logged-out`, `replaced` by a new id, `ended` with its lifetime.
 */
export type Saved =
  | 'stored' | 'touched' | 'nothing' | 'withdraw-cookie' | 'logged-out' | 'replaced' | 'ended'

/** A store with the rules of one application. */
export class Sessions {
  constructor (url: string, options?: SessionsOptions)
  /** The URL without secrets. */
  readonly label: string
  /** The session of an id, with its lock; a new one without an id or for an unknown one. */
  begin (id?: string): Promise<Held>
  /** The data of a session, without a lock; null if there is none. */
  peek (id: string): Promise<SessionData | null>
  /** Lets a session live for `idleMs` from now. */
  touch (id: string, idleMs?: number): Promise<void>
  /** Ends the session of an id, even while a request has it. */
  destroy (id: string): Promise<void>
  /**
   * Ends all sessions of an owner, but for the one with the id `but`: a log-out everywhere. Returns
   * how many.
   */
  revoke (owner: string, options?: { but?: string }): Promise<number>
  /** Removes expired sessions and returns their number. */
  collect (): Promise<number>
  /** What this process has counted. */
  counters (): Record<
    'failedSaves' | 'tooLarge' | 'staleCommits' | 'destroyedCommits' | 'lockTimeouts' |
    'spentIds' | 'mergeConflicts', number>
}

/** Opens the store of a URL, for example `sessile:/dev/shm/shop` or `redis://localhost`. */
export function open (url: string, options?: SessionsOptions): Sessions

/** The session of one request. */
export class Held {
  data: SessionData
  /** The secret of the cookie. */
  readonly id: string
  /** Whether no request has stored it. */
  readonly isNew: boolean
  /**
   * How long it lives after each request, if that is not what the options say: at most ten years.
   */
  idleMs: number | undefined
  /**
   * Says whose session it is, for example the number of the user after a log-in; null takes that
   * away. It counts with the next save, and stays until it is set anew.
   */
  setOwner (owner: string | null): void
  /** Stores it and gives its lock back; another commit takes it again. */
  commit (): Promise<Saved>
  /** `commit` that names what another request has ended, and throws nothing for it. */
  save (): Promise<Saved>
  /** Gives it a new id: at each log-in and change of rights. */
  regenerate (options?: { keep?: boolean }): Promise<void>
  /** Ends it: a log-out. */
  destroy (): Promise<void>
  /** Gives the lock back without saving. */
  release (): Promise<void>
}

/** The cookie of the middleware. */
export interface CookieOptions {
  path?: string
  domain?: string
  /** Without it the cookie lives until the browser is closed. */
  maxAge?: number
  /** `auto`, the default: on HTTPS, as Express sees it behind the proxies that it trusts. */
  secure?: boolean | 'auto'
  httpOnly?: boolean
  sameSite?: boolean | 'lax' | 'strict' | 'none'
  partitioned?: boolean
}

export interface MiddlewareOptions extends SessionsOptions {
  /** The store, or sessions that are open. */
  url: string | Sessions
  /** The name of the cookie: `sid`. */
  name?: string
  cookie?: CookieOptions
  /** Whether each response renews the cookie. */
  rolling?: boolean
  /** Whether a session is opened only by `await req.openSession()`. */
  lazy?: boolean
}

type Done = (error?: any) => void

/** `req.session`: its own properties are its data. */
export class Session {
  readonly id: string
  /** Stores it now and gives its lock back. */
  save (): Promise<Saved>
  save (callback: Done): void
  /** Gives it a new id; it is empty then, unless `keep`: then `req.session` keeps its data. */
  regenerate (options?: { keep?: boolean }): Promise<void>
  regenerate (callback: Done): void
  regenerate (options: { keep?: boolean }, callback: Done): void
  /** Says whose session it is, for example the number of the user; null takes that away. */
  setOwner (owner: string | null): this
  /** Ends it: a log-out. */
  destroy (): Promise<void>
  destroy (callback: Done): void
  /** Sends the cookie again. With `idleMs` the session lives for so long after this request and
   * each later one, and so does the cookie. */
  touch (idleMs?: number): this
}

/** What the middleware adds to a request. */
export interface WithSession {
  session: Session & SessionData
  readonly sessionID: string
  /** Opens the session, with `lazy`. */
  openSession (): Promise<Session & SessionData>
}

/** The middleware, for Express and everything that has its handlers. */
export interface Middleware {
  (req: IncomingMessage, res: ServerResponse, next: (error?: any) => void): void
  sessions: Sessions
}

/** Makes the middleware: a request holds its session until its response ends. */
export function sessile (options: MiddlewareOptions): Middleware
export default sessile

/** A new session id, of 192 random bits. */
export function newId (): string

/** The base of all errors of a store. */
export class SessileError extends Error {
  /** The kind: the same word in logs and in every language. */
  readonly code: string
}
export class InvalidIdError extends SessileError {}
export class InvalidUrlError extends SessileError {}
export class InvalidArgumentError extends SessileError {}
export class UnsupportedError extends SessileError {}
export class ExistsError extends SessileError {}
export class GoneError extends SessileError {}
export class DestroyedError extends SessileError {}
export class StaleError extends SessileError {}
export class LockTimeoutError extends SessileError {
  readonly holderPid?: number
  readonly holderHost?: string
  readonly waitedMs: number
}
export class TooLargeError extends SessileError {
  readonly size: number
  readonly limit: number
}
export class UnreachableError extends SessileError {}
export class DeniedError extends SessileError {}
export class FullError extends SessileError {}
export class OutOfMemoryError extends SessileError {}
export class EvictedError extends SessileError {}
export class CorruptError extends SessileError {}
export class IncompatibleError extends SessileError {}
export class IoError extends SessileError {}
/** A defect of Sessile. */
export class PanicError extends SessileError {}
/** The class of each code. */
export const byCode: Record<string, typeof SessileError>
