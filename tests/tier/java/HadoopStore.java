import java.io.IOException;
import java.net.URI;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/** The files of a tier in HDFS, by Hadoop's own client. Compiled where its jars are. */
public final class HadoopStore implements TierReader.Store {
    private final Path base;
    private final FileSystem files;

    public HadoopStore(String url) throws IOException {
        base = new Path(url);
        files = FileSystem.get(URI.create(url), new Configuration());
    }

    @Override public List<String> list(String folder) throws IOException {
        List<String> names = new ArrayList<>();
        for (FileStatus entry : files.listStatus(folder.isEmpty() ? base : new Path(base, folder))) {
            names.add(entry.getPath().getName() + (entry.isDirectory() ? "/" : ""));
        }
        return names;
    }

    @Override public byte[] read(String path) throws IOException {
        Path file = new Path(base, path);
        byte[] bytes = new byte[Math.toIntExact(files.getFileStatus(file).getLen())];
        try (FSDataInputStream in = files.open(file)) {
            in.readFully(0, bytes);
        }
        return bytes;
    }
}
