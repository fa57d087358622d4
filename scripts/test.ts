/**
 * `npm test`: checks, then every test file, failures in full at the end, last line `N passed, M failed`.
 *
 *   npm test                    everything
 *   npm test -- lint            only the stages and test files whose name contains "lint"
 *   npm test -- src/io kv       the same, for several words
 */
import { globSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join, posix } from 'node:path';

import { importsOf } from '../test/support/rules/dependencies.ts';
import { checks } from './testing/checks.ts';
import { type StageFailure, projectRoot, type Stage, type StageReport } from './testing/stage.ts';
import { type TestFileReport, killRunningTests, runTestFiles } from './testing/test-files.ts';

const words = process.argv.slice(2);
const isWanted = (name: string): boolean => words.length === 0 || words.some((word) => name.includes(word));

const candidates = globSync(['src/**/*.test.ts', 'test/**/*.test.ts', 'scripts/**/*.test.ts'], { cwd: projectRoot })
  .map((file) => file.replaceAll('\\', '/'))
  .toSorted();

/** What tests share has the same ending, which keeps it out of the build: others import it, and it declares no test. */
function sharedFiles(): ReadonlySet<string> {
  const texts = new Map(candidates.map((file) => [file, readFileSync(join(projectRoot, file), 'utf8')]));
  const imported = new Set<string>();
  for (const [file, text] of texts) {
    for (const specifier of importsOf(text)) imported.add(posix.join(posix.dirname(file), specifier));
  }
  return new Set(candidates.filter((file) => imported.has(file) && !/\b(?:test|it)\(/.test(texts.get(file) ?? '')));
}

const shared = sharedFiles();
const testFiles = candidates.filter((file) => isWanted(file) && !shared.has(file));

/** Tests that start clusters of real processes need the machine for themselves. */
const isProcessTest = (file: string): boolean => /^test\/(?:processes|browser)\//.test(file);

const limits = {
  light: { concurrency: availableParallelism(), fileTimeoutMs: 300_000, testTimeoutMs: 240_000 },
  heavy: { concurrency: 1, fileTimeoutMs: 480_000, testTimeoutMs: 240_000 },
} as const;

/**
 * A shared machine may stand still for seconds, and tests of real processes have deadlines. So a file that failed runs
 * once more, alone, and what it says then counts; the first failure is printed all the same, as unsteady. When more
 * files than this failed, it is not the machine.
 */
const secondTriesMax = 4;
const unsteady: StageFailure[] = [];

async function runTests(): Promise<StageReport> {
  const reports = new Map<string, TestFileReport>();
  const ended = (report: TestFileReport): void => {
    reports.set(report.file, report);
    printFile(report);
  };
  await runTestFiles(
    testFiles.filter((file) => !isProcessTest(file)),
    { ...limits.light, ended },
  );
  await runTestFiles(testFiles.filter(isProcessTest), { ...limits.heavy, ended });
  const failed = [...reports.values()].filter((report) => report.failures.length > 0);
  if (failed.length <= secondTriesMax) {
    for (const first of failed) {
      await runTestFiles([first.file], { ...limits.heavy, ended });
      if (reports.get(first.file)?.failures.length === 0) unsteady.push(...first.failures);
    }
  }
  const all = [...reports.values()];
  const passed = sum(all, (report) => report.passed);
  const skipped = sum(all, (report) => report.skipped);
  const failures = all.flatMap((report) => report.failures);
  const tests = `${passed + failures.length} tests in ${all.length} files`;
  return { looked: skipped === 0 ? tests : `${tests}, ${skipped} skipped`, passed, failures };
}

function printFile({ file, passed, notes, elapsedMs, failures }: TestFileReport): void {
  const verdict = failures.length === 0 ? `${passed} passed` : `${passed} passed, ${failures.length} failed`;
  console.log(`  ${file.padEnd(54)} ${verdict.padEnd(22)} ${seconds(elapsedMs)}`);
  if (notes.length > 0) console.log(`    ${notes.join(', ').replaceAll(', looked at', ',')}`);
}

function sum<T>(items: readonly T[], value: (item: T) => number): number {
  return items.reduce((total, item) => total + value(item), 0);
}

function seconds(elapsedMs: number): string {
  return `${(elapsedMs / 1000).toFixed(1).padStart(6)} s`;
}

async function runStage(stage: Stage): Promise<StageReport> {
  const startedMs = performance.now();
  const report = await stage.run();
  const verdict = report.failures.length === 0 ? 'ok' : 'FAILED';
  console.log(
    `${stage.name.padEnd(10)} ${verdict.padEnd(7)} ${report.looked.padEnd(60)} ${seconds(performance.now() - startedMs)}`,
  );
  return report;
}

function printFailure({ title, text }: StageFailure, index: number): void {
  console.log(`\n${index < 0 ? '-' : `${index + 1})`} ${title}\n${text.replaceAll(/^/gm, '   ')}`);
}

for (const [signal, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
  ['SIGHUP', 129],
] as const) {
  process.once(signal, () => {
    killRunningTests();
    process.exit(code);
  });
}

const stages = checks.filter((stage) => isWanted(stage.name));
if (testFiles.length > 0) stages.push({ name: 'tests', run: runTests });
const reports: StageReport[] = [];
for (const stage of stages) reports.push(await runStage(stage));
if (words.length === 0 && testFiles.length === 0) throw new Error('there is no test file');

const failures = reports.flatMap((report) => report.failures);
for (const { title, text } of unsteady) printFailure({ title: `unsteady, passed alone: ${title}`, text }, -1);
for (const [index, failure] of failures.entries()) printFailure(failure, index);
const passed = sum(reports, (report) => report.passed);
console.log(`\n${passed} passed, ${failures.length} failed`);
process.exitCode = failures.length === 0 && passed > 0 ? 0 : 1;
