/** The report of a stage of `npm test`, and how a stage runs a tool. Prints nothing. */
import { spawn } from 'node:child_process';
import { resolve } from 'node:path';

export const projectRoot = resolve(import.meta.dirname, '../..');

export type StageFailure = { readonly title: string; readonly text: string };

export type StageReport = {
  /** What was checked, with its number: a stage that has checked nothing fails. */
  readonly checked: string;
  readonly passed: number;
  readonly failures: readonly StageFailure[];
};

export type Stage = { readonly name: string; readonly run: () => Promise<StageReport> };

export type ToolExit = { readonly code: number; readonly output: string };

const outputCharactersMax = 2_000_000;

/** Runs a program of node_modules/.bin or of the PATH; returns both of its outputs together. */
export function runTool(command: string, args: readonly string[], timeoutMs = 180_000): Promise<ToolExit> {
  return new Promise((done) => {
    const env = { ...process.env, NO_COLOR: '1', FORCE_COLOR: undefined };
    const child = spawn(command, args, {
      cwd: projectRoot,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: timeoutMs,
    });
    let output = '';
    const keep = (chunk: Buffer): void => {
      if (output.length < outputCharactersMax) output += chunk.toString();
    };
    child.stdout.on('data', keep);
    child.stderr.on('data', keep);
    child.on('error', (error) => done({ code: 127, output: `${command} cannot be started: ${error.message}` }));
    child.on('close', (code, signal) => {
      if (signal !== null) output += `\n${command} was ended by ${signal} (after the timeout of ${timeoutMs} ms?)`;
      done({ code: code ?? 1, output });
    });
  });
}

/** Passed only if the tool exited with 0 and has checked something. */
export function stageReportOf(name: string, exit: ToolExit, count: number, what: string): StageReport {
  const checked = `${count} ${what}`;
  if (exit.code === 0 && count > 0) return { checked, passed: 1, failures: [] };
  const reason = count > 0 ? '' : `it checked no ${what}\n`;
  return { checked, passed: 0, failures: [{ title: name, text: reason + exit.output.trim() }] };
}
