/**
 * `npm test` and `npm run test:long`: the checks, then every test file of the tier, one line each; failures in full at
 * the end, the ten slowest files, and as the last line `N passed, M failed`. A check counts as one test.
 *
 *   npm test                    the fast tier
 *   npm run test:long           the long tier
 *   npm test -- lint            only the stages and test files whose name contains "lint", of both tiers
 *   npm test -- src/io kv       the same, for several words
 */
import { globSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join, posix } from 'node:path';

import { importsOf } from '../test/support/rules/dependencies.ts';
import { checks } from './testing/checks.ts';
import { type StageFailure, projectRoot, type Stage, type StageReport } from './testing/stage.ts';
import { isProcessTest, type Tier, tierOf } from './testing/tiers.ts';
import { debianStage } from './testing/debian-stage.ts';
import { type TestFileReport, killRunningTests, runTestFiles } from './testing/test-files.ts';

const tier: Tier = process.argv[2] === '--long' ? 'long' : 'fast';
const words = process.argv.slice(tier === 'long' ? 3 : 2);
const isWanted = (name: string): boolean => words.some((word) => name.includes(word));
const isInRun = (file: string): boolean => (words.length === 0 ? tierOf(file) === tier : isWanted(file));
const slowestShown = 10;

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
const testFiles = candidates.filter((file) => isInRun(file) && !shared.has(file));

const limits = { fileTimeoutMs: 480_000, testTimeoutMs: 240_000 };

/**
 * A shared machine may stand still for seconds, and tests of real processes have deadlines. So a file that failed runs
 * once more, alone, and what it says then counts; the first failure is printed all the same, as unsteady. When more
 * files than this failed, it is not the machine.
 */
const secondTriesMax = 4;
const unsteady: StageFailure[] = [];
const measured: TestFileReport[] = [];

async function runTests(
  files: readonly string[],
  { concurrency }: { readonly concurrency: number },
): Promise<StageReport> {
  const reports = new Map<string, TestFileReport>();
  const ended = (report: TestFileReport): void => {
    reports.set(report.file, report);
    printFile(report);
  };
  await runTestFiles(files, { ...limits, concurrency, ended });
  const failed = [...reports.values()].filter((report) => report.failures.length > 0);
  if (failed.length <= secondTriesMax) {
    for (const first of failed) {
      await runTestFiles([first.file], { ...limits, concurrency: 1, ended });
      if (reports.get(first.file)?.failures.length === 0) unsteady.push(...first.failures);
    }
  }
  const all = [...reports.values()];
  measured.push(...all);
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

function printSlowest(): void {
  const slowest = measured.toSorted((a, b) => b.elapsedMs - a.elapsedMs).slice(0, slowestShown);
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

/** Tests that start clusters of real processes need the machine for themselves; the others run side by side. */
const testStages: readonly Stage[] = [
  { name: 'tests', files: testFiles.filter((file) => !isProcessTest(file)), concurrency: availableParallelism() },
  { name: 'processes', files: testFiles.filter(isProcessTest), concurrency: 1 },
]
  .filter(({ files }) => files.length > 0)
  .map(({ name, files, concurrency }) => ({ name, run: () => runTests(files, { concurrency }) }));
const checksOfRun = words.length > 0 ? checks.filter(({ name }) => isWanted(name)) : tier === 'fast' ? checks : [];

if (words.length === 0) await runStage(debianStage);
const startedMs = performance.now();
const reports: StageReport[] = [];
for (const stage of [...checksOfRun, ...testStages]) reports.push(await runStage(stage));
if (measured.length > slowestShown) printSlowest();
if (words.length === 0 && testFiles.length === 0) throw new Error('there is no test file');

const failures = reports.flatMap((report) => report.failures);
for (const { title, text } of unsteady) printFailure({ title: `unsteady, passed alone: ${title}`, text }, -1);
for (const [index, failure] of failures.entries()) printFailure(failure, index);
const passed = sum(reports, (report) => report.passed);
console.log(`\nwithout the installation of packages:${seconds(performance.now() - startedMs)}`);
console.log(`\n${passed} passed, ${failures.length} failed`);
process.exitCode = failures.length === 0 && passed > 0 ? 0 : 1;
