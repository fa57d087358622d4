/**
 * The checks before the tests: generated pages, format, lint, types, dead code. Each reports how many files it checked,
 * because a tool with a wrong path checks none and passes.
 */
import { stageReportOf, projectRoot, runTool, type Stage, type StageReport } from './stage.ts';

export const checks: readonly Stage[] = [
  {
    name: 'docs',
    run: async () => {
      const exit = await runTool(process.execPath, ['scripts/docs/docs.ts', '--check']);
      return stageReportOf('generated pages', exit, numberIn(exit.output, /(\d+) generated pages/), 'generated pages');
    },
  },
  {
    name: 'format',
    run: async () => {
      const exit = await runTool('oxfmt', ['--check', '.']);
      return stageReportOf(
        'format (npm run format corrects it)',
        exit,
        numberIn(exit.output, /on (\d+) files/),
        'files',
      );
    },
  },
  {
    name: 'lint',
    run: async () => {
      const exit = await runTool('oxlint', ['--type-aware', '--deny-warnings']);
      return stageReportOf('lint', exit, numberIn(exit.output, /on (\d+) files/), 'files');
    },
  },
  {
    name: 'types',
    run: () => typesOf('types', '.', `${projectRoot}/`),
  },
  {
    name: 'types of the console',
    run: () => typesOf('types of the console', 'console', `${projectRoot}/console/`),
  },
  {
    name: 'dead code',
    run: async () => {
      const reporters = ['--reporter', 'symbols', '--reporter', './scripts/testing/knip-reporter.ts'];
      const exit = await runTool('knip', ['--no-progress', '--treat-config-hints-as-errors', ...reporters]);
      return stageReportOf('dead code', exit, numberIn(exit.output, /knip looked at (\d+) files/), 'files');
    },
  },
];

async function typesOf(name: string, project: string, folder: string): Promise<StageReport> {
  const exit = await runTool('tsc', ['--noEmit', '-p', project, '--listFiles']);
  const lines = exit.output.split('\n');
  const files = lines.filter((line) => line.startsWith(`${projectRoot}/`));
  const projectFiles = files.filter((file) => file.startsWith(folder) && !file.includes('/node_modules/'));
  const rest = lines.filter((line) => !files.includes(line)).join('\n');
  return stageReportOf(name, { ...exit, output: rest }, projectFiles.length, 'files');
}

function numberIn(output: string, pattern: RegExp): number {
  return Number(pattern.exec(output)?.[1] ?? 0);
}
