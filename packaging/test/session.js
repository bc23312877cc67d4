// A session of the installed npm package: scripts/package_steps.sh runs it.
'use strict'

const assert = require('node:assert')
const { mkdtempSync, rmSync } = require('node:fs')
const { open } = require('sessile')

async function main () {
  const place = mkdtempSync('/dev/shm/sessile-')
  const sessions = open(`sessile:${place}/store`)
  let id
  for (const count of [1, 2, 3]) {
    const session = await sessions.begin(id)
    session.data.count = (session.data.count ?? 0) + 1
    assert.strictEqual(session.data.count, count)
    await session.commit()
    id = session.id
  }
  rmSync(place, { recursive: true })
}

main().catch((error) => {
  console.error(error)
  process.exit(1)
})
