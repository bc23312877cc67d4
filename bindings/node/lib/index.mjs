// The same for ES modules.
import api from './index.js'

export const {
  sessile, open, Sessions, Held, Session, Cookie, newId, byCode,
  CorruptError, DeniedError, DestroyedError, EvictedError, ExistsError, FullError,
  GoneError, IncompatibleError, InvalidArgumentError, InvalidIdError, InvalidUrlError,
  IoError, LockTimeoutError, OutOfMemoryError, PanicError, SessileError, StaleError, TooLargeError,
  UnreachableError, UnsupportedError
} = api
export default api.sessile
