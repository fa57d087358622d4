/** `remuster new workflow NAME`: starter load test and batch job in one file. */
import { RemusterError } from '../../base/errors.ts';
import { namePattern } from '../../base/ids.ts';
import { exitOk } from '../command/exit.ts';
import { quoteSpecifier, writeNewFiles } from './new-file.ts';
import { printData, printNotice } from '../output/terminal.ts';

export function newWorkflowCommand(name: string, folder: string): number {
  if (!namePattern.test(name))
    throw new RemusterError('BAD_ARGUMENT', `${JSON.stringify(name)} cannot be the name of a workflow`);
  const [path] = writeNewFiles(folder, { [`${name}.ts`]: workflowText(name) });
  printData(path ?? '');
  printNotice(`run it:    remuster run ${path} --env TARGET=http://127.0.0.1:8080`);
  printNotice(`elsewhere: remuster run ${path} --env TARGET=... --vus 500 --duration 5m --cores 4 --out report.html`);
  return exitOk;
}

/** Not at the beginning of a line: here nothing is exported by default, there it is. */
const exported = 'export';

function workflowText(name: string): string {
  return `/**
 * Two workflows of one job. The first is a load test: its users go through the steps again and again. The second is a
 * batch job that begins when the first is done: a function for each item.
 */
import { workflow } from ${quoteSpecifier('remuster')};

${exported} default workflow('${name}', {
  vus: 10,
  duration: '10s',
  cores: 2,
  thresholds: { 'http.duration': ['p(99)<250ms'], failed: ['rate<1%'] },

  /** Runs once. What it gives is \`ctx.data\` everywhere else. */
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
  /** What it gives for each item is the result of the job. It may run again on another worker: key what it does outside. */
  each: (item) => item * item,
});
`;
}
