/**
 * Runs test files, each in its own process group with a deadline. A file fails if it has no test or leaves a process
 * behind. The `run()` of node:test is not used, because it does not end a file that loops.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

import { type StageFailure, projectRoot } from './stage.ts';
import type { TestRecord } from './test-reporter.ts';

export type TestFileReport = {
  readonly file: string;
  readonly passed: number;
  readonly skipped: number;
  readonly notes: readonly string[];
  readonly elapsedMs: number;
  readonly failures: readonly StageFailure[];
};

export type TestRunOptions = {
  readonly concurrency: number;
  /** For one file, from start to exit. */
  readonly fileTimeoutMs: number;
  /** For one test: shorter, so that the report names the hanging test and not only its file. */
  readonly testTimeoutMs: number;
  readonly onReport: (report: TestFileReport) => void;
};

const outputCharactersMax = 20_000;
const reporter = join(import.meta.dirname, 'test-reporter.ts');
const running = new Set<ChildProcess>();

/** Kills every running test process and the processes that it has started. */
export function killRunningTests(): void {
  for (const child of running) killGroup(child);
}

export async function runTestFiles(files: readonly string[], options: TestRunOptions): Promise<void> {
  const waiting = [...files];
  const runFilesInTurn = async (): Promise<void> => {
    for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) {
      options.onReport(await runFile(file, options));
    }
  };
  await Promise.all(Array.from({ length: options.concurrency }, runFilesInTurn));
}

async function runFile(file: string, options: TestRunOptions): Promise<TestFileReport> {
  const startedMs = performance.now();
  const folder = mkdtempSync(join(tmpdir(), 'remuster-test-'));
  try {
    const eventsFile = join(folder, 'events.jsonl');
    const exit = await runProcess(file, eventsFile, options);
    const events = readEvents(eventsFile);
    const lines = events.filter((line) => line.outcome !== 'note');
    const notes = events.filter((line) => line.outcome === 'note').map((line) => line.name);
    const failures: StageFailure[] = lines
      .filter((line) => line.outcome === 'failed')
      .map((line) => ({ title: `${file}: ${line.name}`, text: line.error ?? '' }));
    const problem = problemOf(exit, lines.length, failures.length, options);
    if (problem !== undefined) failures.push({ title: file, text: `${problem}\n${exit.output}`.trim() });
    else if (failures.length > 0 && exit.output !== '') failures.push(...withOutput(failures.pop(), exit.output));
    return {
      file,
      passed: lines.filter((line) => line.outcome === 'passed').length,
      skipped: lines.filter((line) => line.outcome === 'skipped').length,
      notes: [...new Set(notes)],
      elapsedMs: performance.now() - startedMs,
      failures,
    };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

type ProcessExit = {
  readonly code: number | null;
  readonly timedOut: boolean;
  readonly leftProcesses: boolean;
  readonly output: string;
};

async function runProcess(file: string, eventsFile: string, options: TestRunOptions): Promise<ProcessExit> {
  const args = [
    `--test-timeout=${options.testTimeoutMs}`,
    `--test-reporter=${reporter}`,
    `--test-reporter-destination=${eventsFile}`,
    file,
  ];
  const env = { ...process.env, NO_COLOR: '1', FORCE_COLOR: undefined };
  const child = spawn(process.execPath, args, {
    cwd: projectRoot,
    env,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  running.add(child);
  const closed = new Promise((onClose) => child.once('close', onClose));
  const exited = new Promise<number | null>((onExit) => child.once('exit', onExit));
  let output = '';
  const keep = (chunk: Buffer): void => {
    output = (output + chunk.toString()).slice(-outputCharactersMax);
  };
  child.stdout.on('data', keep);
  child.stderr.on('data', keep);
  let timedOut = false;
  const deadline = setTimeout(() => {
    timedOut = true;
    killGroup(child);
  }, options.fileTimeoutMs);

  const code = await exited;
  clearTimeout(deadline);
  const leftProcesses = !timedOut && (await hasSurvivors(child.pid));
  killGroup(child);
  running.delete(child);
  // A process outside the group may keep the pipes open; its output is not needed.
  await Promise.race([closed, pause(1_000, undefined, { ref: false })]);
  child.stdout.destroy();
  child.stderr.destroy();
  return { code, timedOut, leftProcesses, output: output.trim() };
}

function killGroup(child: ChildProcess): void {
  try {
    if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
  } catch {
    // All processes of the group have ended.
  }
}

/** Whether processes of the group still run, after a grace period for those that are exiting. */
async function hasSurvivors(group: number | undefined): Promise<boolean> {
  if (group === undefined || process.platform !== 'linux') return false;
  for (let attempt = 0; attempt < 20; attempt++) {
    if (!readdirSync('/proc').some((entry) => /^\d+$/.test(entry) && livesInGroup(entry, group))) return false;
    await pause(50);
  }
  return true;
}

function livesInGroup(pid: string, group: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const [state, , processGroup] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return Number(processGroup) === group && state !== 'Z' && state !== 'X';
  } catch {
    return false;
  }
}

function problemOf(exit: ProcessExit, tests: number, failures: number, options: TestRunOptions): string | undefined {
  if (exit.timedOut) {
    const reasons = 'a test hangs, or something is left open';
    return `did not exit within ${options.fileTimeoutMs} ms after ${tests} finished tests: ${reasons}`;
  }
  if (exit.leftProcesses) return 'left a process behind; it was killed';
  if (exit.code !== 0 && failures === 0) return `exited with code ${exit.code}`;
  return tests === 0 ? 'has no test' : undefined;
}

function withOutput(failure: StageFailure | undefined, output: string): readonly StageFailure[] {
  return failure === undefined ? [] : [{ ...failure, text: `${failure.text}\n\noutput of this file:\n${output}` }];
}

function readEvents(file: string): readonly TestRecord[] {
  try {
    const rows = readFileSync(file, 'utf8').split('\n').filter(Boolean);
    return rows.map((row) => JSON.parse(row) as TestRecord);
  } catch {
    return [];
  }
}
