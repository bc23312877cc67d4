// The same for ES modules.
import api from './express-session.js'

export const { SessileStore } = api
export default api.SessileStore
