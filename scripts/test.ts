/**
 * `npm test` and `npm run test:long`: the checks, then every test file of the tier, one line each; failures in full at
 * the end, the ten slowest files, and as the last line `N passed, M failed`. A check counts as one test.
 *
 *   npm test                    the fast tier
 *   npm run test:long           the long tier
 *   npm test -- lint            only the stages and test files whose name contains "lint", of both tiers
 *   npm test -- src/io kv       the same with several filters
 */
import { globSync } from 'node:fs';
import { availableParallelism } from 'node:os';

import { checks } from './testing/checks.ts';
import { type StageFailure, projectRoot, type Stage, type StageReport } from './testing/stage.ts';
import { isProcessTest, type Tier, tierOf } from './testing/tiers.ts';
import { debianStage } from './testing/debian-stage.ts';
import { type TestFileReport, killRunningTests, runTestFiles } from './testing/test-files.ts';

const tier: Tier = process.argv[2] === '--long' ? 'long' : 'fast';
const filters = process.argv.slice(tier === 'long' ? 3 : 2);
const isSelected = (name: string): boolean => filters.some((filter) => name.includes(filter));
const isInRun = (file: string): boolean => (filters.length === 0 ? tierOf(file) === tier : isSelected(file));
const slowestPrinted = 10;

const testFiles = globSync(['src/**/*.test.ts', 'test/**/*.test.ts', 'scripts/**/*.test.ts'], { cwd: projectRoot })
  .map((file) => file.replaceAll('\\', '/'))
  .filter((file) => isInRun(file))
  .toSorted();

const limits = { fileTimeoutMs: 480_000, testTimeoutMs: 240_000 };

/**
 * A shared machine may stall for seconds, and tests of real processes have deadlines. So a failed file runs a second
 * time, alone, and that result counts; the first failure is still printed, as unsteady. If more files than this fail,
 * the machine is not the reason.
 */
const retriedFilesMax = 4;
const unsteady: StageFailure[] = [];
const measured: TestFileReport[] = [];

async function runTests(
  files: readonly string[],
  { concurrency }: { readonly concurrency: number },
): Promise<StageReport> {
  const reports = new Map<string, TestFileReport>();
  const onReport = (report: TestFileReport): void => {
    reports.set(report.file, report);
    printFile(report);
  };
  await runTestFiles(files, { ...limits, concurrency, onReport });
  const failed = [...reports.values()].filter((report) => report.failures.length > 0);
  if (failed.length <= retriedFilesMax) {
    for (const first of failed) {
      await runTestFiles([first.file], { ...limits, concurrency: 1, onReport });
      if (reports.get(first.file)?.failures.length === 0) unsteady.push(...first.failures);
    }
  }
  const all = [...reports.values()];
  measured.push(...all);
  const passed = sum(all, (report) => report.passed);
  const skipped = sum(all, (report) => report.skipped);
  const failures = all.flatMap((report) => report.failures);
  const tests = `${passed + failures.length} tests in ${all.length} files`;
  return { checked: skipped === 0 ? tests : `${tests}, ${skipped} skipped`, passed, failures };
}

function printFile({ file, passed, notes, elapsedMs, failures }: TestFileReport): void {
  const verdict = failures.length === 0 ? `${passed} passed` : `${passed} passed, ${failures.length} failed`;
  console.log(`  ${file.padEnd(54)} ${verdict.padEnd(22)} ${seconds(elapsedMs)}`);
  if (notes.length > 0) console.log(`    ${notes.join(', ').replaceAll(', looked at', ',')}`);
}

function printSlowest(): void {
  const slowest = measured.toSorted((a, b) => b.elapsedMs - a.elapsedMs).slice(0, slowestPrinted);
  console.log('slowest files:');
  for (const { file, elapsedMs } of slowest) console.log(`  ${file.padEnd(54)} ${seconds(elapsedMs)}`);
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
  const time = seconds(performance.now() - startedMs);
  console.log(`${stage.name.padEnd(10)} ${verdict.padEnd(7)} ${report.checked.padEnd(60)} ${time}`);
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

/**
 * Tests with clusters of real processes run alone, because they need the whole machine; the others run concurrently.
 */
const testStages: readonly Stage[] = [
  { name: 'tests', files: testFiles.filter((file) => !isProcessTest(file)), concurrency: availableParallelism() },
  { name: 'processes', files: testFiles.filter(isProcessTest), concurrency: 1 },
]
  .filter(({ files }) => files.length > 0)
  .map(({ name, files, concurrency }) => ({ name, run: () => runTests(files, { concurrency }) }));
const checksOfRun = filters.length > 0 ? checks.filter(({ name }) => isSelected(name)) : tier === 'fast' ? checks : [];

if (filters.length === 0) await runStage(debianStage);
const startedMs = performance.now();
const reports: StageReport[] = [];
for (const stage of [...checksOfRun, ...testStages]) reports.push(await runStage(stage));
if (measured.length > slowestPrinted) printSlowest();
if (filters.length === 0 && testFiles.length === 0) throw new Error('no test file was found');

const failures = reports.flatMap((report) => report.failures);
for (const { title, text } of unsteady) printFailure({ title: `unsteady, passed alone: ${title}`, text }, -1);
for (const [index, failure] of failures.entries()) printFailure(failure, index);
const passed = sum(reports, (report) => report.passed);
console.log(`\ntime without the installation of packages:${seconds(performance.now() - startedMs)}`);
console.log(`\n${passed} passed, ${failures.length} failed`);
process.exitCode = failures.length === 0 && passed > 0 ? 0 : 1;
