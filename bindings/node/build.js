// Builds the addon with cargo and leaves it beside this file: `npm install` runs it.
//
// SESSILE_PROFILE=debug takes the build that the Rust tests have made.
'use strict'

const { spawnSync } = require('node:child_process')
const { copyFileSync, existsSync, renameSync } = require('node:fs')
const path = require('node:path')

const top = path.resolve(__dirname, '../..')
const addon = path.join(__dirname, 'sessile.node')

if (!existsSync(path.join(top, 'Cargo.toml'))) {
  // An installed package has its addon.
  process.exit(existsSync(addon) ? 0 : fail('run npm install in bindings/node of the project'))
}
const debug = process.env.SESSILE_PROFILE === 'debug'
// With the whole workspace, dependencies have the same features as in the tests.
const what = debug ? ['--workspace', '--lib'] : ['--release', '-p', 'sessile-node']
const locked = process.env.CI ? ['--locked'] : []
const cargo = process.env.CARGO || 'cargo'
const target = path.join(top, 'target')
const args = ['build', ...what, ...locked, '--target-dir', target]
const built = spawnSync(cargo, args, { cwd: top, stdio: 'inherit' })
if (built.error) fail(`${cargo} cannot be run: install Rust (${built.error.message})`)
if (built.status !== 0) process.exit(1)
// A running process keeps the old file.
copyFileSync(path.join(target, debug ? 'debug' : 'release', 'libsessile_node.so'), `${addon}.new`)
renameSync(`${addon}.new`, addon)

function fail (why) {
  console.error(`sessile: ${why}`)
  process.exit(1)
}
