// The cases of spec/requests.toml, over the engine, Redis and SQLite.
'use strict'

const assert = require('node:assert')
const { readFileSync } = require('node:fs')
const path = require('node:path')
const { test } = require('node:test')
const { native, openStore, checked, ask, wait } = require('../lib/native')
const stores = require('./stores')

/** The inline tables of the file: `name = "text", other = true`. */
function table (text) {
  const pairs = text.matchAll(/(\w+) = (?:"([^"]*)"|'([^']*)'|(\w+))/g)
  return Object.fromEntries([...pairs].map(([, name, double, single, word]) =>
    [name, double ?? single ?? JSON.parse(word)]))
}

function cases () {
  const file = readFileSync(path.join(__dirname, '../../../spec/requests.toml'), 'utf8')
  return file.split('[[case]]\n').slice(1).map((text) => ({
    name: /^name = "(.*)"$/m.exec(text)[1],
    rules: table(/^rules = (.*)$/m.exec(text)?.[1] ?? ''),
    steps: [...text.matchAll(/^ {4}\{ (.*) \},$/gm)].map(([, step]) => table(step))
  }))
}

function rulesOf (rules) {
  const seconds = (number) => number && number * 1000
  return checked(native.makeRules({
    idleMs: seconds(rules.idle) ?? 1_440_000,
    firstLifetimeMs: seconds(rules.first_lifetime),
    lifetimeMs: seconds(rules.lifetime),
    graceMs: seconds(rules.grace),
    lockWaitMs: 0,
    lazyStart: rules.lazy_start,
    touchUnlocked: rules.touch_unlocked,
    bestEffort: rules.best_effort,
    readOnLockTimeout: rules.read_on_lock_timeout,
    concurrency: rules.concurrency,
    format: 'php',
    onConflict: rules.merge_conflict
  }))
}

/** The code of an error, and undefined without one. */
async function codeOf (call) {
  try {
    await call()
  } catch (error) {
    assert(error.code, error)
    return error.code
  }
}

class Run {
  constructor (store, rules, number) {
    Object.assign(this, { store, rules, number, requests: {} })
  }

  id (name) {
    return `${name}-${this.number}`
  }

  async step (step) {
    const by = this.requests[step.by] ??=
      { request: new native.Request(this.store, this.rules), text: '', opened: '' }
    const { request } = by
    const call = (run) => ask(this.store, run)
    if ('made' in step) {
      assert.equal(await call((t) => request.makeId(t, this.id(step.made))), 'free')
    } else if ('start' in step) {
      await this.start(by, step)
    } else if ('put' in step) {
      by.text = step.put
    } else if ('save' in step) {
      const headers = step.headers !== 'sent'
      const save = (t) =>
        request.save(t, by.id, by.text, by.text !== by.opened, by.text === '', headers)
      let saved
      const failed = await codeOf(async () => { saved = await call(save) })
      assert.equal(failed ?? saved, step.save)
    } else if ('regenerate' in step) {
      const fresh = this.id(step.regenerate)
      const move = (t) => request.regenerate(t, by.id, fresh, !step.deletes)
      assert.equal(await codeOf(() => call(move)), step.fails)
      by.id = fresh
    } else if ('destroy' in step) {
      await call((t) => request.destroy(t, this.id(step.destroy)))
    } else {
      assert.equal(await call((t) => request.close(t, true)), step.close)
    }
  }

  async start (by, step) {
    by.id = this.id(step.start)
    const access = step.unlocked ? 'unlocked' : 'locked'
    let text
    const failed = await codeOf(async () => {
      const open = (t) => by.request.open(t, by.id, access, step.strict ?? false)
      text = await wait(this.store, by.id, open)
    })
    assert.equal(failed, step.fails)
    assert.equal(text !== null, step.known ?? true)
    assert.equal(text ?? undefined, step.sees)
    assert.equal(by.request.warning()?.code, step.warns)
    by.text = by.opened = text ?? ''
  }
}

test('the language-neutral cases hold', async (context) => {
  const kinds = {
    engine: stores.engine(),
    redis: await stores.redis(),
    sqlite: `sqlite:${stores.directory()}/sessions.db`
  }
  const all = cases()
  assert(all.length > 30)
  for (const [kind, url] of Object.entries(kinds)) {
    const store = url && openStore(url)
    for (const [number, { name, rules, steps }] of all.entries()) {
      const passes = steps.some((step) => 'advance' in step)
      const skip = (passes && 'time passes') || (!url && `${kind} is missing`)
      await context.test(`${kind}: ${name}`, { skip }, async () => {
        const run = new Run(store, rulesOf(rules), number)
        for (const step of steps) {
          await run.step(step).catch((error) => {
            error.message += ` in ${JSON.stringify(step)}`
            throw error
          })
        }
      })
    }
  }
})
