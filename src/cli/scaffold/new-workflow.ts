/** `remuster new workflow NAME`: writes a starter load test and batch job in one file. */
import { RemusterError } from '../../base/errors.ts';
import { namePattern } from '../../base/ids.ts';
import { exitOk } from '../command/exit.ts';
import { quoteSpecifier, writeNewFiles } from './new-file.ts';
import { printData, printNotice } from '../output/terminal.ts';

export function newWorkflowCommand(name: string, folder: string): number {
  if (!namePattern.test(name))
    throw new RemusterError(
      'BAD_ARGUMENT',
      `${JSON.stringify(name)} is not a valid workflow name: use lower-case letters, digits, '.', '-' and '_'`,
    );
  const [path] = writeNewFiles(folder, { [`${name}.ts`]: workflowText(name) });
  printData(path ?? '');
  printNotice(`run it:        remuster run ${path} --env TARGET=http://127.0.0.1:8080`);
  printNotice(
    `with a report: remuster run ${path} --env TARGET=... --vus 500 --duration 5m --cores 4 --out report.html`,
  );
  return exitOk;
}

/** Not written out in the template: the linter would take it for a default export of this file. */
const exportKeyword = 'export';

function workflowText(name: string): string {
  return `/**
 * Two workflows of one job. The first is a load test: its virtual users repeat the steps until the time is over. The
 * second is a batch job that starts when the first has completed, and runs a function for each item.
 */
import { workflow } from ${quoteSpecifier('remuster')};

${exportKeyword} default workflow('${name}', {
  vus: 10,
  duration: '10s',
  cores: 2,
  thresholds: { 'http.duration': ['p(99)<250ms'], failed: ['rate<1%'] },

  /** Runs once; its result is \`ctx.data\` in the steps. */
  setup: (ctx) => ({ base: ctx.env.TARGET ?? 'http://127.0.0.1:8080' }),

  steps: {
    browse: async (ctx) => {
      const answer = await ctx.http.get(\`\${ctx.data.base}/\`);
      ctx.check(answer, { 'status is 200': ({ status }) => status === 200 });
    },
    think: { run: () => undefined, think: ['100ms', '300ms'] },
  },
});

export const squares = workflow('${name}-squares', {
  after: ['${name}'],
  items: 1_000,
  cores: 2,
  /**
   * The results are the result of the job. An item may run again on another worker: make external effects idempotent.
   */
  each: (item) => item * item,
});
`;
}
