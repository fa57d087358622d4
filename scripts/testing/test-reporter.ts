/**
 * Reporter inside a test process: one JSON line per test, to a file of its own, so that the output of a test cannot
 * distort the count.
 */
import type { TestEvent } from 'node:test/reporters';
import { inspect } from 'node:util';

export type TestRecord = {
  readonly name: string;
  /** A note is not a test, but a diagnostic of a test about the number of things that it checked. */
  readonly outcome: 'passed' | 'failed' | 'skipped' | 'note';
  readonly error?: string;
};

export default async function* report(source: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const names: string[] = [];
  for await (const { type, data } of source) {
    if (type === 'test:start') {
      names.length = data.nesting;
      names.push(data.name);
    }
    if (type === 'test:diagnostic' && data.message.startsWith('looked at ')) {
      yield line({ name: data.message, outcome: 'note' });
    }
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    const name = [...names.slice(0, data.nesting), data.name].join(' > ');
    const failed = type === 'test:fail' && data.todo === undefined;
    if (failed && failedByItself(data.details.error))
      yield line({ name, outcome: 'failed', error: text(data.details.error) });
    else if (!failed && data.details.type !== 'suite') {
      const skipped = data.skip !== undefined || data.todo !== undefined;
      yield line({ name, outcome: skipped ? 'skipped' : 'passed' });
    }
  }
}

function line(test: TestRecord): string {
  return `${JSON.stringify(test)}\n`;
}

/** False for a suite that fails only because of its tests, which have reports of their own. */
function failedByItself(error: unknown): boolean {
  return (error as { failureType?: string }).failureType !== 'subtestsFailed';
}

function text(error: unknown): string {
  const cause = (error as { cause?: unknown }).cause ?? error;
  return inspect(cause, { depth: 6 })
    .split('\n')
    .filter((row) => !/node:(internal|async_hooks)/.test(row))
    .join('\n');
}
