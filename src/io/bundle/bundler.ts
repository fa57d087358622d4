/**
 * Bundles a module and its imports into one JavaScript file with a source map, the package itself left out. Runs none
 * of the code.
 */
import { dirname, relative, resolve } from 'node:path';
import type { InputOptions, OutputOptions } from 'rolldown';
import { RemusterError } from '../../base/errors.ts';

/** Entries of the package that every node has; a bundle imports them by name. */
const providedEntries = ['remuster', 'remuster/client'] as const;

/** How the lines of the author are called in stack traces. */
export const deployedSourceScheme = 'deployed:';

const faultsShownMax = 5;

type Fault = {
  readonly code?: string;
  readonly message: string;
  readonly loc?: { readonly line: number; readonly column: number; readonly file?: string };
};

/** BUNDLE_INVALID names files and lines. The same sources give the same bytes. */
export async function bundleModule(file: string): Promise<Uint8Array> {
  const path = resolve(file);
  const folder = dirname(path);
  const warnings: Fault[] = [];
  let output: readonly { readonly type: string; readonly code?: string }[];
  try {
    output = await bundled(inputOf(path, folder, warnings), outputOptions);
  } catch (error) {
    throw invalid(faultsOf(error), folder);
  }
  // To the bundler this may be a package that is there later; here nothing is ever installed beside the module.
  const missing = warnings.filter(({ code }) => code === 'UNRESOLVED_IMPORT');
  if (missing.length > 0) throw invalid(missing, folder);
  const [chunk, ...more] = output;
  if (chunk?.code === undefined || more.length > 0)
    throw new RemusterError('BUNDLE_INVALID', `${file} cannot be made one file of code`);
  return new TextEncoder().encode(chunk.code);
}

async function bundled(
  input: InputOptions,
  output: OutputOptions,
): Promise<readonly { readonly type: string; readonly code?: string }[]> {
  const { rolldown } = await import('rolldown');
  const bundle = await rolldown(input);
  try {
    return (await bundle.generate(output)).output;
  } finally {
    await bundle.close();
  }
}

function inputOf(path: string, folder: string, warnings: Fault[]): InputOptions {
  return {
    input: path,
    cwd: folder,
    platform: 'node',
    external: [...providedEntries],
    logLevel: 'warn',
    onLog: (_level, log) => void warnings.push(log),
  };
}

const outputOptions: OutputOptions = {
  format: 'esm',
  codeSplitting: false,
  minify: false,
  sourcemap: 'inline',
  sourcemapExcludeSources: true,
  sourcemapPathTransform: (source) => `${deployedSourceScheme}${source.replace(/^(?:\.\.?\/)+/, '')}`,
};

function faultsOf(error: unknown): readonly Fault[] {
  const { errors } = error as { readonly errors?: unknown };
  if (Array.isArray(errors) && errors.length > 0) return errors as readonly Fault[];
  return [{ message: error instanceof Error ? error.message : String(error) }];
}

function invalid(faults: readonly Fault[], folder: string): RemusterError {
  const lines = faults.slice(0, faultsShownMax).map((fault) => faultText(fault, folder));
  const rest = faults.length - lines.length;
  return new RemusterError('BUNDLE_INVALID', [...lines, ...(rest > 0 ? [`and ${rest} more`] : [])].join('; '));
}

/** `folder/file.ts:3:7: what is wrong`. The message of the bundler goes on with a picture of the line. */
function faultText({ message, loc }: Fault, folder: string): string {
  const [first = ''] = message.split('\n');
  const text = first.replace(/^\[\w+\] /, '');
  if (loc === undefined) return text;
  const file = loc.file === undefined ? '' : relative(folder, loc.file);
  return `${file}:${loc.line}:${loc.column + 1}: ${text}`;
}
