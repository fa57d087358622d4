/**
 * Entry file of a runner: connects the pipe, imports the program, drops every right, calls `main`. Exits when the pipe
 * closes.
 */
import { Socket } from 'node:net';
import { Worker } from 'node:worker_threads';
import { RemusterError } from '../../base/errors.ts';
import { PipeFrameReader, PipeFrameWriter } from './pipe-frames.ts';
import { importProgram, programChannel } from '../system/program-channel.ts';
import { keepAliveFd, runnerFrameKind, pipeFd, decodeRunnerStart } from './runner-protocol.ts';
import { type NetworkDenyList, setNetworkDenyList, installNetworkGuard } from './network-guard.ts';
import { entryUrl } from '../system/entry-url.ts';

const nobody = 65_534;
const ownPid = process.pid;
const [parentPid = 0, userId = nobody, silenceMsMax = 0] = process.argv.slice(2).map(Number);
const kill = process.kill.bind(process);
/** Held here, because the code of users may replace what it finds. */
const { parse } = JSON;
const decoder = new TextDecoder();
const decode = decoder.decode.bind(decoder);
const exit = process.exit.bind(process);
const line = new Socket({ fd: pipeFd, readable: true, writable: true });
const reader = new PipeFrameReader();
const unsaidMax = 32;
const unsaid = new PipeFrameWriter();
let deliver: ((body: Uint8Array) => void) | undefined;

/** Resolves when the thread runs, because afterwards the right to start threads is given up. */
async function startWatch(): Promise<void> {
  const worker = new Worker(entryUrl(import.meta.url, 'runner-watch-thread'), {
    workerData: { parentPid, silenceMsMax, beatFd: keepAliveFd },
    env: {},
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 2 },
  });
  await new Promise<void>((resolve, reject) => {
    worker.once('online', resolve);
    worker.once('error', reject);
  });
  worker.unref();
}

function giveUpRights(): void {
  process.permission?.drop?.('worker');
  process.permission?.drop?.('fs');
  if (process.getuid?.() === 0) stopBeingRoot();
  for (const name of ['kill', '_kill', '_debugProcess', '_debugEnd', '_getActiveHandles', '_getActiveRequests']) {
    Object.defineProperty(process, name, { value: forbidden, writable: false, configurable: false });
  }
  // They name places of this machine.
  process.argv.splice(0);
  process.execArgv.splice(0);
}

/** A user id of its own, or where the system has none to give, that of nobody. */
function stopBeingRoot(): void {
  process.setgroups?.([]);
  try {
    process.setgid?.(userId);
    process.setuid?.(userId);
  } catch {
    process.setgid?.(nobody);
    process.setuid?.(nobody);
  }
}

function forbidden(): never {
  throw new RemusterError('FORBIDDEN', 'a runner may not signal processes or reach for handles');
}

async function start(body: Uint8Array): Promise<void> {
  const { moduleUrl, data } = decodeRunnerStart(body);
  const { channel, receive: hand } = programChannel(data, say);
  deliver = hand;
  const [program] = await Promise.all([importProgram(moduleUrl), startWatch()]);
  installNetworkGuard(line);
  giveUpRights();
  program.main(channel);
}

/** Each write wakes the worker: what follows at once goes with it. */
function say(message: Uint8Array, isMore = false): void {
  unsaid.add(runnerFrameKind.message, message);
  if (isMore && unsaid.count < unsaidMax) return;
  for (const part of unsaid.take()) line.write(part);
}

function fail(error: unknown): void {
  const text = error instanceof Error ? error.message : String(error);
  unsaid.add(runnerFrameKind.failed, new TextEncoder().encode(text.slice(0, 1_000)));
  for (const part of unsaid.take()) line.write(part);
  line.end(() => exit(1));
}

line.on('data', (chunk: Uint8Array) => {
  for (const { kind, body } of reader.read(chunk)) {
    if (kind === runnerFrameKind.start && deliver === undefined) start(body).catch(fail);
    else if (kind === runnerFrameKind.denyList) setNetworkDenyList(parse(decode(body)) as NetworkDenyList);
    else if (kind === runnerFrameKind.denyNetwork) process.permission.drop('net');
    else if (kind === runnerFrameKind.message) deliver?.(body);
    else throw new RemusterError('MALFORMED', `unexpected frame kind ${kind}`);
  }
});
line.on('end', () => kill(ownPid, 'SIGKILL'));
line.on('error', () => kill(ownPid, 'SIGKILL'));
process.on('uncaughtException', fail);
