/**
 * The checks before the tests: generated pages, format, lint, types, dead code. Each proves that it saw
 * files, because a tool that sees none is silent and green.
 */
import { stageReportOf, projectRoot, runTool, type Stage, type StageReport } from './stage.ts';

export const checks: readonly Stage[] = [
  {
    name: 'docs',
    run: async () => {
      const ended = await runTool(process.execPath, ['scripts/docs/docs.ts', '--check']);
      return stageReportOf(
        'generated pages',
        ended,
        numberIn(ended.output, /(\d+) generated pages/),
        'generated pages',
      );
    },
  },
  {
    name: 'format',
    run: async () => {
      const ended = await runTool('oxfmt', ['--check', '.']);
      return stageReportOf(
        'format (npm run format corrects it)',
        ended,
        numberIn(ended.output, /on (\d+) files/),
        'files',
      );
    },
  },
  {
    name: 'lint',
    run: async () => {
      const ended = await runTool('oxlint', ['--type-aware', '--deny-warnings']);
      return stageReportOf('lint', ended, numberIn(ended.output, /on (\d+) files/), 'files');
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
      const ended = await runTool('knip', ['--no-progress', '--treat-config-hints-as-errors', ...reporters]);
      return stageReportOf('dead code', ended, numberIn(ended.output, /knip looked at (\d+) files/), 'files');
    },
  },
];

async function typesOf(name: string, project: string, folder: string): Promise<StageReport> {
  const ended = await runTool('tsc', ['--noEmit', '-p', project, '--listFiles']);
  const lines = ended.output.split('\n');
  const files = lines.filter((line) => line.startsWith(`${projectRoot}/`));
  const ours = files.filter((file) => file.startsWith(folder) && !file.includes('/node_modules/'));
  const rest = lines.filter((line) => !files.includes(line)).join('\n');
  return stageReportOf(name, { ...ended, output: rest }, ours.length, 'files');
}

function numberIn(output: string, pattern: RegExp): number {
  return Number(pattern.exec(output)?.[1] ?? 0);
}
