from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('shop', '0003_vip'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='customer',
            index=models.Index(fields=['country', 'vip'], name='customers_vip'),
        ),
    ]
