// Checks of a suite: each prints `ok <name>` or `not ok <name>: <why>`.
import { deepStrictEqual } from 'node:assert'
import { execSync } from 'node:child_process'

const limit = 45_000
const wanted = process.argv[2]
let failed = 0

// check runs one check. Later ones go on whatever became of it.
export async function check(name, run) {
  if (wanted && !name.includes(wanted) && !['connect', 'migrate', 'declare', 'seed'].includes(name)) return
  const start = Date.now()
  let timer
  const late = new Promise((_, no) => {
    timer = setTimeout(() => no(new Error(`not done after ${limit} ms`)), limit)
  })
  try {
    await Promise.race([run(), late])
    console.log(`ok ${name}`)
  } catch (e) {
    failed++
    console.log(`not ok ${name}: ${explain(e)}`)
    if (process.env.VERBOSE) console.error(e)
  } finally {
    clearTimeout(timer)
    if (process.env.VERBOSE) console.error(`${Date.now() - start} ms ${name}`)
  }
}

// skip says what is left out, and why.
export const skip = (name, why) => console.log(`skip ${name}: ${why}`)

// explain gives the server's words first; libraries put the whole statement before them.
function explain(e) {
  const said = e.cause ?? e.original ?? e.driverError ?? e
  const hint = said.hint ? ` (${said.hint})` : ''
  const around = said === e ? '' : `; ${e.message}`
  return `${said.code ?? ''} ${said.message}${hint}${around}`.replace(/\s+/g, ' ').trim()
}

// same compares by value; numbers that drivers hand out as text stay text.
export function same(got, want, what = 'got') {
  try {
    deepStrictEqual(got, want)
  } catch {
    throw new Error(`${what} ${show(got)}, want ${show(want)}`)
  }
}

function show(v) {
  const s = JSON.stringify(v, (_, x) => (typeof x === 'bigint' ? `${x}n` : x))
  return s && s.length > 600 ? `${s.slice(0, 600)}…` : s
}

// fails expects the SQLSTATE, wherever the library hides the driver's error.
export async function fails(code, run) {
  let e
  try {
    await run()
  } catch (x) {
    e = x
  }
  if (!e) throw new Error(`no error, want ${code}`)
  for (let x = e; x; x = x.cause ?? x.original ?? x.driverError) {
    if (x.code === code) return x
  }
  throw e
}

// eventually repeats what may fail while a server comes back.
export async function eventually(run, seconds = 30) {
  const end = Date.now() + seconds * 1000
  for (;;) {
    try {
      return await run()
    } catch (e) {
      if (Date.now() > end) throw e
      await sleep(200)
    }
  }
}

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms))

function shell(command) {
  execSync(command, { stdio: ['ignore', 'ignore', 'inherit'], shell: '/bin/sh' })
}

export const declare = (...tables) => shell(`${process.env.DECLARE ?? 'true'} ${tables.join(' ')}`)
export const restart = () => shell(process.env.RESTART ?? 'true')

export function done() {
  process.exit(failed ? 1 : 0)
}
