/** What the stages of `npm test` share: what a stage reports and how a tool is run. Prints nothing. */
import { spawn } from 'node:child_process';
import { resolve } from 'node:path';

export const projectRoot = resolve(import.meta.dirname, '../..');

export type StageFailure = { readonly title: string; readonly text: string };

export type StageReport = {
  /** What was looked at, with its number: a stage that looked at nothing has failed. */
  readonly looked: string;
  readonly passed: number;
  readonly failures: readonly StageFailure[];
};

export type Stage = { readonly name: string; readonly run: () => Promise<StageReport> };

export type ToolExit = { readonly code: number; readonly output: string };

const outputCharactersMax = 2_000_000;

/** Runs a program of node_modules/.bin, or any other, to its end; both of its outputs together. */
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
      if (signal !== null) output += `\n${command} was ended by ${signal} (it may take ${timeoutMs} ms)`;
      done({ code: code ?? 1, output });
    });
  });
}

/** The verdict on one tool: clean only if it ended well and looked at something. */
export function stageReportOf(name: string, ended: ToolExit, count: number, what: string): StageReport {
  const looked = `${count} ${what}`;
  if (ended.code === 0 && count > 0) return { looked, passed: 1, failures: [] };
  const reason = count > 0 ? '' : `it looked at no ${what}\n`;
  return { looked, passed: 0, failures: [{ title: name, text: reason + ended.output.trim() }] };
}
