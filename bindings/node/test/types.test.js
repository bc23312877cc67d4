// The types hold for programs of TypeScript.
'use strict'

const assert = require('node:assert')
const { spawnSync } = require('node:child_process')
const path = require('node:path')
const { test } = require('node:test')

for (const file of ['express.ts', 'store.ts']) {
  test(`${file} has the types that it says`, () => {
    const tsc = path.join(__dirname, '../node_modules/.bin/tsc')
    const options = ['--strict', '--noEmit', '--module', 'nodenext', '--target', 'es2022']
    const args = [...options, '--skipLibCheck', path.join(__dirname, 'types', file)]
    const { stdout, status } = spawnSync(tsc, args, { encoding: 'utf8' })
    assert.equal(status, 0, stdout)
  })
}
