/** Serves the files of the web console. */
import type { ApiRoute } from '../../base/http-routes.ts';

export type LoadConsoleFile = (name: string) => Promise<{ readonly contentType: string; readonly text: string }>;

const consolePaths = {
  '/': 'index.html',
  '/console.js': 'console.js',
  '/console.css': 'console.css',
  '/console.svg': 'console.svg',
} as const;

export function consoleRoutes(files: LoadConsoleFile): readonly ApiRoute[] {
  return Object.entries(consolePaths).map(([path, name]) => ({
    method: 'GET',
    path,
    handler: async () => {
      const { contentType, text } = await files(name);
      return { status: 200, contentType, text };
    },
  }));
}
