/**
 * Entry file of a runner process: connects the pipe, imports the program, drops all rights, calls `main`. Exits when
 * the pipe closes.
 */
import { Socket } from 'node:net';
import { Worker } from 'node:worker_threads';
import { RemusterError } from '../../base/errors.ts';
import { PipeFrameReader, PipeFrameWriter } from './pipe-frames.ts';
import { importProgram, programChannel } from '../system/program-channel.ts';
import { keepAliveFd, runnerFrameKind, pipeFd, decodeRunnerStart } from './runner-protocol.ts';
import { type NetworkDenyList, setNetworkDenyList, installNetworkGuard } from './network-guard.ts';
import { entryUrl } from '../system/entry-url.ts';

/** The id that Unix systems reserve for a user without rights. */
const unprivilegedId = 65_534;
const ownPid = process.pid;
const [parentPid = 0, userId = unprivilegedId, parentStallMsMax = 0] = process.argv.slice(2).map(Number);
// References to built-ins, which user code may replace.
const kill = process.kill.bind(process);
const { parse } = JSON;
const decoder = new TextDecoder();
const decode = decoder.decode.bind(decoder);
const exit = process.exit.bind(process);
const pipe = new Socket({ fd: pipeFd, readable: true, writable: true });
const reader = new PipeFrameReader();
const framesPerWriteMax = 32;
const outbox = new PipeFrameWriter();
let receive: ((body: Uint8Array) => void) | undefined;

/** Resolves when the thread runs: only then may the right to start threads be dropped. */
async function startWatch(): Promise<void> {
  const worker = new Worker(entryUrl(import.meta.url, 'runner-watch-thread'), {
    workerData: { parentPid, parentStallMsMax, keepAliveFd },
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

function dropRights(): void {
  process.permission?.drop?.('worker');
  process.permission?.drop?.('fs');
  if (process.getuid?.() === 0) dropRoot();
  for (const name of ['kill', '_kill', '_debugProcess', '_debugEnd', '_getActiveHandles', '_getActiveRequests']) {
    Object.defineProperty(process, name, { value: forbidden, writable: false, configurable: false });
  }
  // The arguments name paths of this machine.
  process.argv.splice(0);
  process.execArgv.splice(0);
}

/** Takes the user id of this runner, or the unprivileged one where the system does not allow that. */
function dropRoot(): void {
  process.setgroups?.([]);
  try {
    process.setgid?.(userId);
    process.setuid?.(userId);
  } catch {
    process.setgid?.(unprivilegedId);
    process.setuid?.(unprivilegedId);
  }
}

function forbidden(): never {
  throw new RemusterError('FORBIDDEN', 'a runner may not signal processes or access handles');
}

async function start(body: Uint8Array): Promise<void> {
  const { moduleUrl, data } = decodeRunnerStart(body);
  const program = programChannel(data, send);
  receive = program.receive;
  const [{ main }] = await Promise.all([importProgram(moduleUrl), startWatch()]);
  installNetworkGuard(pipe);
  dropRights();
  main(program.channel);
}

/** `isMore`: another message follows at once, so both go in one write, since each write wakes the parent. */
function send(message: Uint8Array, isMore = false): void {
  outbox.add(runnerFrameKind.message, message);
  if (isMore && outbox.count < framesPerWriteMax) return;
  for (const part of outbox.take()) pipe.write(part);
}

function fail(error: unknown): void {
  const text = error instanceof Error ? error.message : String(error);
  outbox.add(runnerFrameKind.failed, new TextEncoder().encode(text.slice(0, 1_000)));
  for (const part of outbox.take()) pipe.write(part);
  pipe.end(() => exit(1));
}

pipe.on('data', (chunk: Uint8Array) => {
  for (const { kind, body } of reader.read(chunk)) {
    if (kind === runnerFrameKind.start && receive === undefined) start(body).catch(fail);
    else if (kind === runnerFrameKind.denyList) setNetworkDenyList(parse(decode(body)) as NetworkDenyList);
    else if (kind === runnerFrameKind.denyNetwork) process.permission.drop('net');
    else if (kind === runnerFrameKind.message) receive?.(body);
    else throw new RemusterError('MALFORMED', `unexpected frame kind ${kind}`);
  }
});
pipe.on('end', () => kill(ownPid, 'SIGKILL'));
pipe.on('error', () => kill(ownPid, 'SIGKILL'));
process.on('uncaughtException', fail);
