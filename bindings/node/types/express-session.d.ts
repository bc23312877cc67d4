/** A Store for express-session that loses no change silently. */

import type { SessionData, Store } from 'express-session'

/** Merges what this request has made of `base` with what another one has stored meanwhile. */
export type Merge =
  (base: SessionData, mine: SessionData, theirs: SessionData) => SessionData | Promise<SessionData>

export interface StoreOptions {
  /** The store, for example `sessile:/dev/shm/shop` or `redis://localhost`. */
  url: string
  /** How many milliseconds a session lives whose cookie does not say it: a day. */
  ttlMs?: number
  /** How many milliseconds a `set` waits for another one. */
  lockWaitMs?: number
  /** What follows when another request has changed the session since this one has read it. */
  onConflict?: 'error' | 'last-wins' | 'merge' | Merge
  /** The largest session in bytes of JSON. */
  payloadBytesMax?: number
  /** Whether the store gets digests of the ids. */
  hashedIds?: boolean
}

/** Emits `conflict` with the session's id for each lost update that it has noticed. */
export class SessileStore extends Store {
  constructor (options: StoreOptions)
  get (sid: string, callback: (error: any, session?: SessionData | null) => void): void
  set (sid: string, session: SessionData, callback?: (error?: any) => void): void
  destroy (sid: string, callback?: (error?: any) => void): void
  touch (sid: string, session: SessionData, callback?: () => void): void
  /** Sessions have an `id` where the store keeps ids. */
  all (callback: (error: any, sessions?: SessionData[] | null) => void): void
  length (callback: (error: any, length?: number) => void): void
  clear (callback?: (error?: any) => void): void
}
export default SessileStore
